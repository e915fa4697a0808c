//! A client that sends pipelines of requests and checks every reply. RESP is encoded and decoded by
//! `redis-protocol`, so that the server's encoder and decoder are not tested against themselves.

use super::{
    bench_context::{End, Role, Shared, WireBench},
    pacing_timer::Timer,
    unmeasured_requests::{REPLY_TIMEOUT, encode},
};
use crate::bench::{
    data::{expirations::Lifetime, key_ledger::ReadBegin, keys::KeyChooser},
    plan::workload::Mix,
    result::{Operation, Workload, number_format},
    run::{
        pace::Pace,
        recorder::{Fault, Recorder},
    },
};
use bytes::{Buf, BytesMut};
use redis_protocol::resp2::{decode::decode_range, types::RangeFrame};
use socket2::{SockRef, TcpKeepalive};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    io,
    net::{Shutdown, SocketAddr},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::sleep,
};

/// Minimum free space that the client's input buffer has for each read from the socket, in bytes.
const READ: usize = 32 << 10;

/// Time without traffic after which the kernel probes the connection (TCP keepalive): a machine that has lost its power or
/// its network does not close its connections.
const KEEPALIVE_TIME: Duration = Duration::from_secs(60);
/// Time between two probes of a connection, if they are not answered.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);

/// Request that the client has queued or sent, and whose reply has not arrived.
struct Request {
    operation: Operation,
    index: u64,
    start: u64,
    /// Bounds of the version and expiration time of the value that the reply to a read may return.
    begin: ReadBegin,
    /// Lifetime of the value that is written; `None` if it does not expire.
    lifetime: Option<Lifetime>,
    /// Bytes of the key and value that the request writes or deletes.
    bytes: usize,
    /// `true` if the request is the SET of a read-modify-write, `false` if it is its GET or of another operation.
    writes_back: bool,
}

pub(super) struct Client {
    stream: TcpStream,
    chooser: KeyChooser,
    depth: usize,
    pub pace: Pace,
    key: Vec<u8>,
    value: Vec<u8>,
    output: BytesMut,
    input: BytesMut,
    waiting: VecDeque<Request>,
    /// Read-modify-writes whose GET is done and whose SET is not sent: key number, and start in nanoseconds of the
    /// clock.
    to_write_back: VecDeque<(u64, u64)>,
    /// Timer of an open loop; `None` in a closed loop.
    timer: Option<Timer>,
    /// [`REPLY_TIMEOUT`], or another time in tests.
    reply_timeout: Duration,
}

impl Client {
    /// Connects the client `number` of a workload, whose keys `chooser` chooses, to the server.
    pub async fn connect(
        address: SocketAddr,
        chooser: &KeyChooser,
        workload: &Workload,
        number: u32,
    ) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_TIME).with_interval(KEEPALIVE_INTERVAL);
        SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
        Ok(Self {
            stream,
            chooser: chooser.for_thread(u64::from(number), workload.salted_seed()),
            depth: workload.batch.max(1) as usize,
            pace: Pace::new(None, 0, 0, 1),
            key: Vec::new(),
            value: Vec::new(),
            output: BytesMut::new(),
            input: BytesMut::with_capacity(2 * READ),
            waiting: VecDeque::new(),
            to_write_back: VecDeque::new(),
            timer: workload.rate.is_some().then(Timer::new).transpose()?,
            reply_timeout: REPLY_TIMEOUT,
        })
    }

    /// Sends operations of the mix until a limit of `end` is reached, the thread's clients of the workload have had
    /// 1000 faults, or no key is left. A broken connection, or a server that sends nothing for [`REPLY_TIMEOUT`], ends the
    /// client and counts as an error.
    pub async fn run(&mut self, shared: &Shared, recorder: &RefCell<Recorder>, mix: &Mix, end: End) {
        let mut left = end.operations;
        let waits_since = Cell::new(None);
        let silence = silence(&waits_since, self.reply_timeout);
        let operations = async {
            while self.fill(shared, recorder, mix, end, &mut left).await? {
                self.exchange(shared, recorder, &waits_since).await?;
            }
            io::Result::Ok(())
        };
        let outcome = tokio::select! {
            biased;
            outcome = operations => outcome,
            error = silence => {
                // The next slice of a comparison uses this client again, which then fails at once.
                let _ = SockRef::from(&self.stream).shutdown(Shutdown::Both);
                Err(error)
            }
        };
        if let Err(error) = outcome {
            recorder.borrow_mut().fault(Fault::Error(format!("connection: {error}")));
        } else if end.time < u64::MAX {
            let mut recorder = recorder.borrow_mut();
            if let Some(starts) = self.pace.left(end.time, left) {
                recorder.missed_starts(starts, shared.clock.now());
            }
            if self.timer.is_some() && left > 0 {
                recorder.extend_to(end.time);
            }
        }
    }

    /// Adds due requests to the pipeline; waits for the next one if the pipeline is empty. Returns `false` if nothing
    /// is left to send.
    async fn fill(
        &mut self,
        shared: &Shared,
        recorder: &RefCell<Recorder>,
        mix: &Mix,
        end: End,
        left: &mut u64,
    ) -> io::Result<bool> {
        while let Some((index, start)) = self.to_write_back.pop_front() {
            self.set(&shared.bench, Operation::ReadModifyWrite, index, start);
        }
        while self.waiting.len() < self.depth {
            let now = shared.clock.now();
            // A workload that runs together with a short one does one operation at least.
            let began = *left < end.operations;
            let stopped =
                began && end.role == Role::Follower && shared.stop.load(std::sync::atomic::Ordering::Relaxed);
            if *left == 0 || now >= end.time || stopped || recorder.borrow().has_too_many_faults() {
                break;
            }
            // The schedule keeps a start that is not due yet.
            let mut pace = self.pace;
            let start = pace.next(now);
            if start > now {
                if start >= end.time {
                    break;
                }
                if !self.waiting.is_empty() {
                    break;
                }
                if let Some(timer) = &self.timer {
                    timer.sleep(Duration::from_nanos(start - now)).await?;
                    recorder.borrow_mut().began(start, shared.clock.now());
                }
                continue;
            }
            self.pace = pace;
            *left -= 1;
            if let Err(fault) = self.request(&shared.bench, start, mix) {
                recorder.borrow_mut().fault(fault);
                *left = 0;
            }
        }
        Ok(!self.waiting.is_empty())
    }

    /// Chooses the next operation of the mix and adds its request to the output. Returns a fault if no key is left for
    /// it.
    fn request(&mut self, bench: &WireBench, start: u64, mix: &Mix) -> Result<(), Fault> {
        let operation = mix.pick(|| self.chooser.random());
        let (first, last) = bench.live.range();
        let index = match operation {
            Operation::Get | Operation::Update | Operation::ReadModifyWrite => {
                self.chooser.choose(first, last)
            }
            Operation::GetMiss => Some(bench.data.absent(self.chooser.random())),
            Operation::Insert => bench.live.insert(),
            Operation::Delete => bench.live.delete(),
            // No Redis command scans a range of keys; the plan refuses such cells.
            Operation::Scan => None,
        };
        let index = index.ok_or_else(|| Fault::dry(operation))?;
        match operation {
            Operation::Update | Operation::Insert => self.set(bench, operation, index, start),
            _ => {
                bench.data.key(index, &mut self.key);
                let name: &[u8] = if operation == Operation::Delete { b"DEL" } else { b"GET" };
                encode(&mut self.output, &[name, &self.key]);
                let bytes = match operation {
                    Operation::Delete => self.key.len() + bench.data.value_length(index),
                    _ => 0,
                };
                let begin = bench.live.begin_read(index);
                self.waiting.push_back(Request {
                    operation,
                    index,
                    start,
                    begin,
                    lifetime: None,
                    bytes,
                    writes_back: false,
                });
            }
        }
        Ok(())
    }

    fn set(&mut self, bench: &WireBench, operation: Operation, index: u64, start: u64) {
        let version = match operation {
            Operation::Insert => 0,
            _ => bench.live.versions.begin(index, || self.chooser.random()),
        };
        bench.data.key(index, &mut self.key);
        bench.data.value(index, version, &mut self.value);
        let expirations = bench.live.expirations.as_ref();
        let lifetime = expirations.map(|expirations| expirations.lifetime(index, bench.is_load));
        match lifetime {
            None => encode(&mut self.output, &[b"SET", &self.key, &self.value]),
            Some(Lifetime { ttl_ms, .. }) => {
                let ttl = ttl_ms.to_string();
                encode(&mut self.output, &[b"SET", &self.key, &self.value, b"PX", ttl.as_bytes()]);
            }
        }
        let writes_back = operation == Operation::ReadModifyWrite;
        let bytes = self.key.len() + self.value.len();
        self.waiting.push_back(Request {
            operation,
            index,
            start,
            begin: ReadBegin::default(),
            lifetime,
            bytes,
            writes_back,
        });
    }

    /// Sends the queued requests and reads all replies, both at the same time: a server may reply before it has read
    /// everything, and stop reading until its replies are read. Sets `waits_since` for [`silence`].
    async fn exchange(
        &mut self,
        shared: &Shared,
        recorder: &RefCell<Recorder>,
        waits_since: &Cell<Option<u64>>,
    ) -> io::Result<()> {
        waits_since.set(Some(shared.clock.now()));
        let (mut reader, mut writer) = self.stream.split();
        let (input, waiting, to_write_back) = (&mut self.input, &mut self.waiting, &mut self.to_write_back);
        let read = async {
            while !waiting.is_empty() {
                input.reserve(READ);
                if reader.read_buf(input).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                let now = shared.clock.now();
                waits_since.set(Some(now));
                let mut recorder = recorder.borrow_mut();
                while let Some((frame, length)) = next(input)? {
                    let Some(request) = waiting.pop_front() else {
                        return Err(io::Error::other("a reply that nobody asked for"));
                    };
                    if settle(&shared.bench, &request, &frame, input, now, &mut recorder) {
                        to_write_back.push_back((request.index, request.start));
                    }
                    input.advance(length);
                }
            }
            Ok(())
        };
        tokio::try_join!(writer.write_all(&self.output), read)?;
        waits_since.set(None);
        self.output.clear();
        Ok(())
    }
}

/// Waits until the server has sent nothing for `limit` while the client waited for replies, and returns an error that says
/// so. `waits_since` is the time at which the client began to wait or the last bytes came, in nanoseconds of the clock;
/// `None` while the client does not wait for a reply.
async fn silence(waits_since: &Cell<Option<u64>>, limit: Duration) -> io::Error {
    // In parts: a time in which this process, or the machine, is stopped counts as one part.
    const PARTS: u32 = 10;
    let (mut seen, mut silent_parts) = (None, 0);
    loop {
        sleep(limit / PARTS).await;
        let since = waits_since.get();
        let is_silent = since.is_some() && since == seen;
        silent_parts = if is_silent { silent_parts + 1 } else { 0 };
        seen = since;
        if silent_parts == PARTS {
            let text = format!(
                "the server has sent nothing for {} while requests waited for replies; see whether it still runs",
                number_format::duration(limit.as_secs_f64())
            );
            return io::Error::new(io::ErrorKind::TimedOut, text);
        }
    }
}

fn next(bytes: &[u8]) -> io::Result<Option<(RangeFrame, usize)>> {
    match bytes {
        [] => Ok(None),
        _ => decode_range(bytes).map_err(io::Error::other),
    }
}

/// Checks the reply to `request` and records its operation or fault. Returns `true` if a read-modify-write must now
/// write the value back.
fn settle(
    bench: &WireBench,
    request: &Request,
    frame: &RangeFrame,
    bytes: &[u8],
    now: u64,
    recorder: &mut Recorder,
) -> bool {
    let part = |range: &(usize, usize)| bytes.get(range.0..range.1).unwrap_or_default();
    let (operation, index) = (request.operation, request.index);
    let reads = !request.writes_back
        && matches!(operation, Operation::Get | Operation::GetMiss | Operation::ReadModifyWrite);
    let fault = match frame {
        RangeFrame::Error(range) => Fault::Error(format!("{operation:?}: {}", part(range).escape_ascii())),
        RangeFrame::BulkString(range) if reads && operation != Operation::GetMiss => {
            match bench.data.check(index, part(range)) {
                Some(version) if !is_current(bench, request, version) => Fault::Wrong(format!(
                    "GET of key {index} found version {version} of its value, which is not the last acknowledged \
                    version"
                )),
                Some(_) if bench.live.must_have_expired(index, request.begin) => {
                    Fault::Wrong(format!("GET of key {index} found a value whose expiration time had passed"))
                }
                Some(_) => {
                    recorder.hit();
                    return operation == Operation::ReadModifyWrite || count(bench, request, now, recorder);
                }
                None => Fault::Wrong(format!(
                    "GET of key {index} found a value that differs from what was written"
                )),
            }
        }
        RangeFrame::Null if reads => match operation {
            Operation::GetMiss => return count(bench, request, now, recorder),
            _ if bench.live.is_deleted(index) => return count(bench, request, now, recorder),
            // A read-modify-write has no value to change.
            _ if bench.live.may_have_expired(request.begin) => {
                recorder.expired_read();
                return count(bench, request, now, recorder);
            }
            _ => Fault::Miss(format!("GET of key {index} found nothing")),
        },
        RangeFrame::SimpleString(range) if !reads && part(range) == b"OK" => {
            return count(bench, request, now, recorder);
        }
        RangeFrame::Integer(1) if operation == Operation::Delete => {
            return count(bench, request, now, recorder);
        }
        RangeFrame::Integer(0) if operation == Operation::Delete => {
            Fault::Miss(format!("DEL of key {index} found nothing"))
        }
        other => Fault::Wrong(format!("{operation:?} of key {index} was answered with {other:?}")),
    };
    if request.updates() {
        bench.live.end_update(index, request.lifetime, false);
    }
    recorder.fault(fault);
    false
}

fn is_current(bench: &WireBench, request: &Request, version: u32) -> bool {
    let bits = bench.data.version_bits(request.index);
    bench.live.versions.allow(request.index, request.begin.oldest, version, bits)
}

impl Request {
    /// Returns `true` if the request is a SET of an existing key.
    fn updates(&self) -> bool {
        self.writes_back || self.operation == Operation::Update
    }
}

/// Records an operation that succeeded at `now`, in nanoseconds of the clock. Returns `false`: nothing is left to write
/// back.
fn count(bench: &WireBench, request: &Request, now: u64, recorder: &mut Recorder) -> bool {
    if request.updates() {
        bench.live.end_update(request.index, request.lifetime, true);
    }
    if request.operation == Operation::Insert {
        bench.live.end_insert(request.index, request.lifetime);
    }
    recorder.wrote(request.bytes);
    recorder.success(request.operation, request.start, now);
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::data::{Data, key_ledger::KeyLedger};
    use std::{net::TcpListener, sync::Arc};
    use tokio::{runtime::Builder, time::timeout};

    /// Returns the state of a server, which does not run, that has acknowledged the insert of key 0 with a time to
    /// live.
    fn bench(ttl_ms: u64) -> WireBench {
        let workload = Workload { ttl_ms: Some(ttl_ms), ..Workload::of([(Operation::Get, 1.0)], 1) };
        let live = KeyLedger::new(10).with_ttl(workload.ttl_ms, 10);
        let index = live.insert().unwrap();
        let lifetime = live.expirations.as_ref().map(|expirations| expirations.lifetime(index, false));
        live.end_insert(index, lifetime);
        let data = Arc::new(Data::new(&workload).unwrap());
        WireBench { address: ([127, 0, 0, 1], 1).into(), data, live: Arc::new(live), is_load: false }
    }

    /// Returns the measurement of a GET of key 0 to which the server replied with `reply`; `None` for a null reply.
    fn settled(bench: &WireBench, reply: Option<&[u8]>) -> crate::bench::result::Measurement {
        let mut recorder = Recorder::new(0, Duration::from_secs(1));
        let frame = reply.map_or(RangeFrame::Null, |value| RangeFrame::BulkString((0, value.len())));
        let request = Request {
            operation: Operation::Get,
            index: 0,
            start: 0,
            begin: bench.live.begin_read(0),
            lifetime: None,
            bytes: 0,
            writes_back: false,
        };
        settle(bench, &request, &frame, reply.unwrap_or_default(), 1, &mut recorder);
        recorder.measurement(0)
    }

    #[test]
    fn key_that_vanishes_before_its_expiration_time_is_a_miss() {
        let measured = settled(&bench(3_600_000), None);
        assert_eq!((measured.misses, measured.expired_reads), (1, Some(0)));
        let measured = settled(&bench(1), None);
        assert_eq!((measured.misses, measured.expired_reads, measured.operations), (0, Some(1), 1));
    }

    /// The listener accepts the connection and replies to nothing. A second use of the client fails at once.
    #[test]
    fn client_of_a_server_that_sends_nothing_ends_with_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let workload = Workload::of([(Operation::GetMiss, 1.0)], 1);
        let server = WireBench { address: listener.local_addr().unwrap(), ..bench(1) };
        let shared = server.shared(&[&workload]);
        let recorder = RefCell::new(Recorder::new(0, Duration::from_secs(1)));
        let end = End { time: u64::MAX, operations: 1, role: Role::Alone };
        let mix = Mix::new(&workload).unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let chooser = server.live.chooser(&workload);
            let mut client = Client::connect(server.address, &chooser, &workload, 0).await.unwrap();
            assert!(SockRef::from(&client.stream).keepalive().unwrap());
            client.reply_timeout = Duration::from_millis(50);
            client.run(&shared, &recorder, &mix, end).await;
            client.reply_timeout = Duration::from_secs(86_400);
            client.run(&shared, &recorder, &mix, end).await;
        });
        let measured = recorder.into_inner().measurement(0);
        assert_eq!((measured.errors, measured.operations), (2, 0));
        let fault = measured.first_fault.unwrap();
        assert!(fault.starts_with("connection: the server has sent nothing for "), "{fault}");
    }

    #[test]
    fn client_that_waits_for_no_reply_is_not_ended() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let waits_since = Cell::new(None);
        let silence = silence(&waits_since, Duration::from_millis(20));
        assert!(runtime.block_on(async { timeout(Duration::from_millis(200), silence).await }).is_err());
    }

    #[test]
    fn value_that_outlives_its_expiration_time_is_wrong() {
        for (ttl_ms, expected) in [(3_600_000, (0, Some(1))), (1, (1, Some(0)))] {
            let bench = bench(ttl_ms);
            let mut value = Vec::new();
            bench.data.value(0, 0, &mut value);
            // Longer than the allowed difference between two clocks.
            std::thread::sleep(Duration::from_millis(250));
            let measured = settled(&bench, Some(&value));
            assert_eq!((measured.wrong_values, measured.hits), expected, "{:?}", measured.first_fault);
        }
    }
}
