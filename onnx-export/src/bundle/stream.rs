//! A file that is written and hashed beside whoever makes its content.
//!
//! Converting weights, hashing them and writing them take about as long as each other, and a SHA-256 can't be split. So
//! each has a thread, with a queue of a few stretches between them: the slowest sets the pace, which for a large bundle is
//! the disk.
//!
//! Now and then the file is *marked*: made to last up to the end of a tensor, together with the digest of all before it.
//! Whoever finds the file after a crash hashes as much, and can go on from there if the digest is the same.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;

use sha2::{Digest, Sha256};

use super::cache;
use super::digest::hex;
use super::partial::{Journal, Mark};
use super::writer::{WriteError, io};

/// Stretches that may wait to be written, and as many to be hashed.
const QUEUE: usize = 2;

/// Bytes after which a file is marked at the next end of a tensor: what a kill costs at most, some seconds of work.
const MARK_EVERY: u64 = 1 << 30;

/// Bytes of a kept file that are hashed at a time.
const CHUNK: usize = 1 << 22;

/// A stretch of a file, shared by the threads that hash and write it.
pub(super) type Stretch = Arc<Vec<u8>>;

/// The end of the queue that leads to the file.
#[derive(Debug)]
pub(super) struct Stream {
    sender: SyncSender<Step>,
    thread: JoinHandle<Result<Mark, WriteError>>,
}

enum Step {
    Bytes(Stretch),
    /// So many tensors are whole.
    Tensors(usize),
    /// Nothing more comes, and what is there shall last.
    Close,
}

/// A file that is there as far as a mark says, and the state of its hash.
#[derive(Debug)]
pub(super) struct Begun {
    path: PathBuf,
    file: File,
    hasher: Sha256,
    mark: Mark,
}

impl Begun {
    /// Begins the file `name` at `path`, over whatever is there.
    pub(super) fn new(path: PathBuf, name: String) -> Result<Self, WriteError> {
        let file = File::create(&path).map_err(io(&path))?;
        Ok(Self { path, file, hasher: Sha256::new(), mark: Mark::nothing(name) })
    }

    /// Goes on with the file at `path` after `mark`, or not if it is not what the mark says. `advance` is told how many
    /// bytes have been looked at, and may stop.
    pub(super) fn resume<E: From<WriteError>>(
        path: PathBuf,
        mark: Mark,
        advance: &mut dyn FnMut(u64) -> Result<(), E>,
    ) -> Result<Option<Self>, E> {
        let Ok(mut file) = File::options().read(true).write(true).open(&path) else { return Ok(None) };
        let (mut hasher, mut left, mut chunk) = (Sha256::new(), mark.bytes, vec![0; CHUNK]);
        while left > 0 {
            let part = &mut chunk[..left.min(CHUNK as u64) as usize];
            if file.read_exact(part).is_err() {
                return Ok(None);
            }
            hasher.update(&*part);
            left -= part.len() as u64;
            advance(part.len() as u64)?;
        }
        if hex(&hasher.clone().finalize()) != mark.sha256 {
            return Ok(None);
        }
        // What follows the mark may not have reached the disk.
        file.set_len(mark.bytes).and_then(|()| file.seek(SeekFrom::End(0))).map_err(io(&path))?;
        Ok(Some(Self { path, file, hasher, mark }))
    }

    /// Tensors that are there.
    pub(super) fn tensors(&self) -> usize {
        self.mark.tensors
    }

    /// Starts the threads that write on; marks go to `journal`.
    pub(super) fn stream(self, journal: Arc<Journal>) -> Stream {
        let (sender, steps) = sync_channel(QUEUE);
        let thread = std::thread::spawn(move || self.write(&steps, &journal));
        Stream { sender, thread }
    }

    fn write(mut self, steps: &Receiver<Step>, journal: &Journal) -> Result<Mark, WriteError> {
        let hashing = Hashing::start(self.hasher.clone());
        let synced = self.file.try_clone().map_err(io(&self.path))?;
        let path = &self.path;
        let mark = |mark: &Mark| {
            synced.sync_data().map_err(io(path))?;
            cache::forget(&synced, mark.bytes);
            journal.mark(mark.clone())
        };
        std::thread::scope(|scope| {
            // Syncing takes as long as the disk does; meanwhile it goes on, and marks that would come too early are left out.
            let (marks, to_mark) = sync_channel::<Mark>(0);
            let marking = scope.spawn(|| to_mark.into_iter().try_for_each(|next| mark(&next)));
            let (mut bytes, mut marked) = (self.mark.bytes, self.mark.bytes);
            while let Ok(step) = steps.recv() {
                match step {
                    Step::Bytes(stretch) => {
                        hashing.update(Arc::clone(&stretch));
                        self.file.write_all(&stretch).map_err(io(path))?;
                        bytes += stretch.len() as u64;
                    }
                    Step::Tensors(tensors) => {
                        hashing.boundary();
                        self.mark = Mark { tensors, bytes, ..self.mark };
                        if bytes - marked >= MARK_EVERY {
                            self.mark.sha256 = hashing.digest();
                            marked = bytes;
                            if let Err(TrySendError::Disconnected(_)) = marks.try_send(self.mark.clone()) {
                                break;
                            }
                        }
                    }
                    Step::Close => {
                        self.mark.sha256 = hashing.digest();
                        drop(marks);
                        marking.join().expect("marking does not panic")?;
                        mark(&self.mark)?;
                        return Ok(self.mark);
                    }
                }
            }
            // Given up, unless marking has failed.
            drop(marks);
            marking.join().expect("marking does not panic")?;
            Ok(self.mark)
        })
    }
}

impl Stream {
    pub(super) fn bytes(&self, stretch: Stretch) -> Result<(), Closed> {
        self.sender.send(Step::Bytes(stretch)).map_err(|_| Closed)
    }

    /// Tells that `count` tensors are whole.
    pub(super) fn tensors(&self, count: usize) -> Result<(), Closed> {
        self.sender.send(Step::Tensors(count)).map_err(|_| Closed)
    }

    /// Makes what is there last up to the last whole tensor, and marks it.
    pub(super) fn close(self) -> Result<Mark, WriteError> {
        // If the thread has ended, its result says why.
        let _ = self.sender.send(Step::Close);
        self.error_or_mark()
    }

    /// Ends the writing where it is.
    pub(super) fn give_up(self) {
        // Whoever gives up has the reason.
        let _ = self.error_or_mark();
    }

    /// Why the file takes no more.
    pub(super) fn error(self) -> WriteError {
        let path = PathBuf::new();
        let ended = |_| WriteError::Io { path, reason: std::io::ErrorKind::BrokenPipe.into() };
        self.error_or_mark().map_or_else(|e| e, ended)
    }

    fn error_or_mark(self) -> Result<Mark, WriteError> {
        drop(self.sender);
        self.thread.join().expect("writing does not panic")
    }
}

/// The file takes no more: its thread ended with an error.
#[derive(Debug)]
pub(super) struct Closed;

/// A hash that is computed in a thread of its own.
struct Hashing {
    sender: SyncSender<Hash>,
}

enum Hash {
    Bytes(Stretch),
    /// A tensor is whole here.
    Boundary,
    /// The digest of all up to the last boundary is wanted.
    Digest(Sender<String>),
}

impl Hashing {
    fn start(mut hasher: Sha256) -> Self {
        let (sender, receiver) = sync_channel(QUEUE);
        std::thread::spawn(move || {
            let mut boundary = hasher.clone();
            for step in receiver {
                match step {
                    Hash::Bytes(stretch) => hasher.update(&*stretch),
                    Hash::Boundary => boundary = hasher.clone(),
                    // If nobody waits any more, nobody wants it.
                    Hash::Digest(sender) => drop(sender.send(hex(&boundary.clone().finalize()))),
                }
            }
        });
        Self { sender }
    }

    fn update(&self, stretch: Stretch) {
        self.send(Hash::Bytes(stretch));
    }

    fn boundary(&self) {
        self.send(Hash::Boundary);
    }

    fn digest(&self) -> String {
        let (sender, receiver) = channel();
        self.send(Hash::Digest(sender));
        receiver.recv().expect("the hashing thread answers as long as it is asked")
    }

    fn send(&self, step: Hash) {
        self.sender.send(step).expect("the hashing thread ends after its sender");
    }
}

/// Writes a small file at once; gives its size and SHA-256.
pub(super) fn write_whole(path: &Path, content: &[u8]) -> Result<(u64, String), WriteError> {
    let mut file = File::create(path).map_err(io(path))?;
    file.write_all(content).and_then(|()| file.sync_all()).map_err(io(path))?;
    Ok((content.len() as u64, hex(&Sha256::digest(content))))
}
