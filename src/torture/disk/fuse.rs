//! FUSE calls of the kernel, answered from the `Image`.
//!
//! There is no write-back cache: a `write` reaches the image before it returns. Pages of a shared memory map
//! arrive when the kernel writes them back. `msync` and `fsync` make the kernel do so before it requests a sync;
//! `sync_file_range` makes the kernel write them back without a sync request.

use super::{
    image::{Image, Result},
    node::{Ino, Kind},
};
use fuser::{
    AccessFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use nix::errno::Errno as Code;
use std::{
    ffi::OsStr,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

/// Time for which the kernel may cache names and attributes; only the kernel changes them.
const TTL: Duration = Duration::from_secs(3600);

/// Capacity of the simulated disk in pages of 4 KiB: 64 GiB.
const CAPACITY: u64 = 1 << 24;

pub(super) struct Fuse(pub Arc<Mutex<Image>>);

pub(super) fn lock(image: &Mutex<Image>) -> MutexGuard<'_, Image> {
    image.lock().unwrap_or_else(PoisonError::into_inner)
}

fn errno(code: Code) -> Errno {
    Errno::from_i32(code as i32)
}

fn attributes(image: &Image, ino: Ino, request: &Request) -> Result<FileAttr> {
    let node = image.node(ino)?;
    let (kind, size, used) = match &node.kind {
        Kind::File(file) => (FileType::RegularFile, file.len(), file.used()),
        Kind::Dir(_) => (FileType::Directory, super::simulated_file::PAGE, 1),
    };
    let time = SystemTime::UNIX_EPOCH;
    Ok(FileAttr {
        ino: INodeNo(ino),
        size,
        blocks: used * (super::simulated_file::PAGE / 512),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind,
        perm: node.mode as u16,
        nlink: 1,
        uid: request.uid(),
        gid: request.gid(),
        rdev: 0,
        blksize: super::simulated_file::PAGE as u32,
        flags: 0,
    })
}

impl Fuse {
    /// Executes a call, or returns EIO if the power is off.
    fn call<T>(&self, call: impl FnOnce(&mut Image) -> Result<T>) -> std::result::Result<T, Errno> {
        let mut image = lock(&self.0);
        if image.is_off {
            return Err(Errno::EIO);
        }
        call(&mut image).map_err(errno)
    }

    fn finish(&self, reply: ReplyEmpty, call: impl FnOnce(&mut Image) -> Result<()>) {
        match self.call(call) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn enter(&self, request: &Request, reply: ReplyEntry, call: impl FnOnce(&mut Image) -> Result<Ino>) {
        let entry = self.call(|image| {
            let ino = call(image)?;
            attributes(image, ino, request)
        });
        match entry {
            Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
            Err(error) => reply.error(error),
        }
    }
}

impl Filesystem for Fuse {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // The kernel lowers the value to its maximum.
        let _ = config.set_max_write(1 << 20);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.enter(request, reply, |image| image.lookup(parent.0, name));
    }

    fn getattr(&self, request: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.call(|image| attributes(image, ino.0, request)) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let outcome = self.call(|image| {
            mode.map_or(Ok(()), |mode| image.set_mode(ino.0, mode))?;
            size.map_or(Ok(()), |size| image.set_len(ino.0, size))?;
            attributes(image, ino.0, request)
        });
        match outcome {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        self.enter(request, reply, |image| image.create(parent.0, name, mode & !umask, true));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.finish(reply, |image| image.remove(parent.0, name, false));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.finish(reply, |image| image.remove(parent.0, name, true));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if flags.contains(RenameFlags::RENAME_WHITEOUT) {
            return reply.error(Errno::EINVAL);
        }
        let (from, to) = ((parent.0, name), (new_parent.0, new_name));
        if flags.contains(RenameFlags::RENAME_EXCHANGE) {
            return self.finish(reply, |image| image.exchange(from, to));
        }
        let replace = !flags.contains(RenameFlags::RENAME_NOREPLACE);
        self.finish(reply, |image| image.rename(from, to, replace));
    }

    fn link(&self, request: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.enter(request, reply, |image| image.link(ino.0, parent.0, name).map(|()| ino.0));
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.call(|image| image.open(ino.0)) {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let created = self.call(|image| {
            let ino = image.create(parent.0, name, mode & !umask, false)?;
            image.open(ino)?;
            attributes(image, ino, request)
        });
        match created {
            Ok(attr) => {
                reply.created(&TTL, &attr, Generation(0), FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
            }
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.call(|image| Ok(image.file(ino.0)?.read(offset, size.into()))) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        how: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // O_SYNC includes O_DSYNC. Writes that come from a memory map have the flags of no open file.
        let synced = flags.0 & libc::O_DSYNC != 0 && !how.contains(WriteFlags::FUSE_WRITE_CACHE);
        let written = self.call(|image| {
            let len = image.write(ino.0, offset, data)?;
            if synced {
                image.sync_range(ino.0, offset, len as u64)?;
            }
            Ok(len)
        });
        match written {
            Ok(len) => reply.written(len as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // After this error the kernel sends no more flush calls.
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        lock(&self.0).release(ino.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.finish(reply, |image| image.sync(ino.0));
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.finish(reply, |image| image.sync_dir(ino.0));
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let outcome = self.call(|image| {
            let dir = image.dir(ino.0)?;
            // The inode number of the parent is not needed.
            for (place, name) in [(1, "."), (2, "..")] {
                if place > offset && reply.add(ino, place, FileType::Directory, name) {
                    return Ok(());
                }
            }
            for (place, target, name) in dir.after(offset) {
                let kind = match image.node(target)?.kind {
                    Kind::File(_) => FileType::RegularFile,
                    Kind::Dir(_) => FileType::Directory,
                };
                if reply.add(INodeNo(target), place, kind, name) {
                    return Ok(());
                }
            }
            Ok(())
        });
        match outcome {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let image = lock(&self.0);
        let free = image.trouble.limit.unwrap_or(CAPACITY).saturating_sub(image.used());
        let page = super::simulated_file::PAGE as u32;
        reply.statfs(CAPACITY, free, free, CAPACITY, free, page, 255, page);
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.finish(reply, |image| image.allocate(ino.0, offset, length, mode));
    }

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn listxattr(&self, _: &Request, _: INodeNo, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }
}
