#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "niskin/base/error.h"
#include "niskin/zarr/store.h"

namespace niskin::zarr {
namespace {

// strerror is not safe between threads; the error category is.
std::string text_of(int code) { return std::generic_category().message(code); }

std::string hint_of(int code) {
  switch (code) {
    case EMFILE:
      return "too many files are open in this process: raise the limit (`ulimit -n`) or read with "
             "fewer threads";
    case ENFILE:
      return "too many files are open on this machine";
    case EACCES:
    case EPERM:
      return "check the permissions of the file and of the directories above it";
    case ELOOP:
      return "symbolic links lead in a circle";
    case ENOTDIR:
      return "a file lies where the path needs a directory";
    case ESTALE:
    case EIO:
      return "the file system failed; try again or check the disk or network mount";
    default:
      return {};
  }
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&&) = delete;
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

// openat that is not disturbed by signals; -1 and errno on failure.
int open_retrying(int directory, const char* path, int flags) {
  int fd = -1;
  do {
    fd = ::openat(directory, path, flags | O_CLOEXEC | O_NOCTTY);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

class LocalValue final : public Value {
 public:
  LocalValue(FileDescriptor file, std::uint64_t size_bytes, std::string path, std::string store)
      : file_(std::move(file)),
        size_bytes_(size_bytes),
        path_(std::move(path)),
        store_(std::move(store)) {}

  std::uint64_t size_bytes() const override { return size_bytes_; }

  std::size_t read(std::uint64_t offset_bytes, std::span<std::byte> out, ReadMode mode) override {
    std::size_t done = 0;
    while (done < out.size()) {
      const auto offset = static_cast<off_t>(offset_bytes + done);
      const iovec target{out.data() + done, out.size() - done};
      const ssize_t got = mode == ReadMode::kNoWait
                              ? ::preadv2(file_.get(), &target, 1, offset, RWF_NOWAIT)
                              : ::pread(file_.get(), target.iov_base, target.iov_len, offset);
      if (got == 0) break;
      if (got > 0) {
        done += static_cast<std::size_t>(got);
        continue;
      }
      const int code = errno;
      if (code == EINTR) continue;
      // Besides EAGAIN: file systems and kernels that cannot tell what is cached.
      const bool cannot_tell =
          code == EAGAIN || code == EOPNOTSUPP || code == ENOSYS || code == EINVAL;
      if (mode == ReadMode::kNoWait && cannot_tell) break;
      throw store_error(fmt::format("cannot read {}: {}", path_, text_of(code)), hint_of(code))
          .at({.store = store_,
               .bytes = std::pair{offset_bytes + done, offset_bytes + out.size()}});
    }
    return done;
  }

  void prefetch(std::uint64_t offset_bytes, std::uint64_t size_bytes) override {
    static_cast<void>(::posix_fadvise(file_.get(), static_cast<off_t>(offset_bytes),
                                      static_cast<off_t>(size_bytes), POSIX_FADV_WILLNEED));
  }

 private:
  FileDescriptor file_;
  std::uint64_t size_bytes_;
  std::string path_;
  std::string store_;
};

class LocalStore final : public Store {
 public:
  LocalStore(FileDescriptor root, std::string path)
      : root_(std::move(root)), path_(std::move(path)) {}

  const std::string& name() const override { return path_; }

  std::unique_ptr<Value> open(const std::string& key) const override {
    check_inside(key);
    // O_NONBLOCK: opening a FIFO returns at once instead of waiting for a writer.
    FileDescriptor file(open_retrying(root_.get(), key.c_str(), O_RDONLY | O_NONBLOCK));
    if (file.get() < 0) {
      const int code = errno;
      if (code != ENOENT) throw failure(key, code);
      refuse_dangling_link(key);
      return nullptr;
    }
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) throw failure(key, errno);
    if (!S_ISREG(status.st_mode)) {
      throw error(
          fmt::format("{}: got {}, expected a regular file", full(key), kind_of(status.st_mode)));
    }
    return std::make_unique<LocalValue>(std::move(file), static_cast<std::uint64_t>(status.st_size),
                                        full(key), path_);
  }

  std::vector<std::string> list(const std::string& prefix) const override {
    if (!prefix.empty()) check_inside(prefix);
    const int fd =
        open_retrying(root_.get(), prefix.empty() ? "." : prefix.c_str(), O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
      if (errno == ENOENT || errno == ENOTDIR) return {};
      throw failure(prefix, errno);
    }
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::fdopendir(fd), &::closedir);
    if (!directory) {
      const int code = errno;
      ::close(fd);
      throw failure(prefix, code);
    }
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* const entry = ::readdir(directory.get());
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) throw failure(prefix, errno);
    return names;
  }

 private:
  std::string full(const std::string& key) const { return key.empty() ? path_ : path_ + "/" + key; }
  Error error(std::string what, std::string hint = {}) const {
    return store_error(std::move(what), std::move(hint)).at({.store = path_});
  }
  Error failure(const std::string& key, int code) const {
    return error(fmt::format("cannot open {}: {}", full(key), text_of(code)), hint_of(code));
  }

  // Keys are names below the root: "/x" and "../x" would leave it.
  void check_inside(const std::string& key) const {
    const std::string framed = "/" + key + "/";
    if (key.empty() || framed.find("//") != std::string::npos ||
        framed.find("/../") != std::string::npos || framed.find("/./") != std::string::npos ||
        framed.find('\0') != std::string::npos) {
      throw error(fmt::format("key \"{}\": expected names separated by '/'", key));
    }
  }

  // The kernel says ENOENT for a link to nowhere as well, in the last part of the path or in one
  // above.
  void refuse_dangling_link(const std::string& key) const {
    for (std::size_t end = key.find('/');; end = key.find('/', end + 1)) {
      const std::string part = key.substr(0, end);
      struct stat status{};
      if (::fstatat(root_.get(), part.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) return;
        throw failure(key, errno);
      }
      if (S_ISLNK(status.st_mode) && ::fstatat(root_.get(), part.c_str(), &status, 0) != 0) {
        throw error(fmt::format("{}: the symbolic link {} leads nowhere", full(key), full(part)));
      }
      if (end == std::string::npos) return;
    }
  }

  FileDescriptor root_;
  std::string path_;
};

}  // namespace

std::shared_ptr<Store> open_local_store(const std::string& path) {
  FileDescriptor root(open_retrying(AT_FDCWD, path.c_str(), O_RDONLY | O_DIRECTORY));
  if (root.get() < 0) {
    const int code = errno;
    if (code == ENOENT) throw store_error("no such directory").at({.store = path});
    if (code == ENOTDIR) throw store_error("not a directory").at({.store = path});
    throw store_error(fmt::format("cannot open the directory: {}", text_of(code)), hint_of(code))
        .at({.store = path});
  }
  return std::make_shared<LocalStore>(std::move(root), path);
}

}  // namespace niskin::zarr
