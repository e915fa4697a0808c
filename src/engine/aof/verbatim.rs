//! The records of a log in [`Form::Raw`](super::record::Form::Raw).

use super::{
    super::{Batch, WriteOp},
    record::{EXEC, FLUSH, MULTI, OVERHEAD, encode_delete, encode_plain},
};

/// Like [`record::encode`](super::record::encode). `ready` and `placed` get `sink` too; `placed` is called after each
/// `SET` record, with the place of its value in `out`.
pub(super) fn encode<E, T>(
    batch: &Batch<'_>,
    group: bool,
    (out, sink): (&mut Vec<u8>, &mut T),
    ready: impl Fn(&mut T, &mut Vec<u8>, usize) -> Result<(), E>,
    placed: impl Fn(&mut T, usize),
) -> Result<(), E> {
    if group {
        ready(sink, out, MULTI.len())?;
        out.extend_from_slice(MULTI);
    }
    for op in batch.ops() {
        match op {
            WriteOp::Put { key, value } => {
                ready(sink, out, OVERHEAD + key.len())?;
                encode_plain(key, value, out);
                placed(sink, out.len() - value.len() - b"\r\n".len());
            }
            WriteOp::Delete { key } => {
                ready(sink, out, OVERHEAD + key.len())?;
                encode_delete(key, out);
            }
            WriteOp::Clear => {
                ready(sink, out, FLUSH.len())?;
                out.extend_from_slice(FLUSH);
            }
        }
    }
    if group {
        ready(sink, out, EXEC.len())?;
        out.extend_from_slice(EXEC);
    }
    Ok(())
}
