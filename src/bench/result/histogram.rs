//! Latency histograms in result files, from which percentiles over several repetitions are computed.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hdrhistogram::{
    Histogram,
    serialization::{Deserializer, Serializer, V2DeflateSerializer},
};

/// Returns a histogram as text that any HdrHistogram library can decode (V2 compressed, base64); `None` if it cannot be
/// encoded.
pub fn encode(histogram: &Histogram<u64>) -> Option<String> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).ok()?;
    Some(BASE64_STANDARD.encode(bytes))
}

/// Decodes a histogram from text, or returns `None` if the text is invalid.
pub fn decode(text: &str) -> Option<Histogram<u64>> {
    let bytes = BASE64_STANDARD.decode(text).ok()?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
}

/// Decodes several histograms and returns their sum, or `None` if there are none, or one is missing or invalid.
pub fn merged<'t>(texts: impl IntoIterator<Item = Option<&'t str>>) -> Option<Histogram<u64>> {
    let mut sum: Option<Histogram<u64>> = None;
    for text in texts {
        let part = decode(text?)?;
        match &mut sum {
            None => sum = Some(part),
            Some(sum) => sum.add(part).ok()?,
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_histograms_decode_and_merge() {
        let histogram = |values: std::ops::Range<u64>| {
            let mut histogram = Histogram::<u64>::new_with_bounds(1, 600_000_000_000, 3).unwrap();
            values.for_each(|value| histogram.record(value * 1000).unwrap());
            histogram
        };
        let (low, high) = (encode(&histogram(1..100)).unwrap(), encode(&histogram(100..201)).unwrap());
        let sum = merged([Some(low.as_str()), Some(high.as_str())]).unwrap();
        assert_eq!((sum.len(), sum.max() / 1000, sum.value_at_quantile(0.5) / 1000), (200, 200, 100));
        assert!(merged([Some(low.as_str()), None]).is_none());
        assert!(decode("no histogram").is_none() && decode("AAAA").is_none());
    }
}
