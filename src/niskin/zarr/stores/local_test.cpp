#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "niskin/base/error.h"
#include "niskin/zarr/group.h"
#include "niskin/zarr/store.h"

namespace niskin::zarr {
namespace {

namespace fs = std::filesystem;

class LocalStoreTest : public ::testing::Test {
 protected:
  LocalStoreTest() {
    std::string pattern = (fs::temp_directory_path() / "niskin_XXXXXX").string();
    root = ::mkdtemp(pattern.data());
    fs::create_directory(root / "a");
  }
  ~LocalStoreTest() override { fs::remove_all(root); }

  void write(const std::string& key, const std::string& bytes) const {
    fs::create_directories((root / key).parent_path());
    std::ofstream(root / key, std::ios::binary) << bytes;
  }
  std::shared_ptr<Store> open() const { return open_local_store(root.string()); }
  std::string error_of(const std::string& key) const {
    try {
      open()->open(key);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kStore);
      EXPECT_NE(std::string(error.what()).find("\n  store: " + root.string()), std::string::npos)
          << error.what();
      return error.what();
    }
    ADD_FAILURE() << key << " was opened or absent";
    return {};
  }
  bool fails_with(const std::string& key, const std::string& text) const {
    const std::string message = error_of(key);
    const bool names_path = message.find((root / key).string()) != std::string::npos;
    EXPECT_TRUE(names_path) << message;
    const bool has_text = message.find(text) != std::string::npos;
    EXPECT_TRUE(has_text) << message;
    return names_path && has_text;
  }

  fs::path root;
};

TEST_F(LocalStoreTest, ReadsRangesAndStopsAtTheEnd) {
  write("a/0.0", "abcdef");
  const auto value = open()->open("a/0.0");
  ASSERT_NE(value, nullptr);
  EXPECT_EQ(value->size_bytes(), 6u);
  std::string out(4, '?');
  const auto bytes = std::as_writable_bytes(std::span(out.data(), out.size()));
  EXPECT_EQ(value->read(1, bytes, ReadMode::kWait), 4u);
  EXPECT_EQ(out, "bcde");
  EXPECT_EQ(value->read(4, bytes, ReadMode::kWait), 2u);
  EXPECT_EQ(value->read(9, bytes, ReadMode::kWait), 0u);
  value->prefetch(0, 6);
}

TEST_F(LocalStoreTest, ReturnsAtMostWhatThereIsWithoutWaiting) {
  write("a/0.0", "abcdef");
  const auto value = open()->open("a/0.0");
  std::string out(6, '?');
  const std::size_t got =
      value->read(0, std::as_writable_bytes(std::span(out.data(), out.size())), ReadMode::kNoWait);
  ASSERT_LE(got, 6u);
  EXPECT_EQ(out.substr(0, got), std::string("abcdef").substr(0, got));
}

TEST_F(LocalStoreTest, KeepsAValueReadableAfterItsNameIsGone) {
  write("a/0.0", "abc");
  const auto value = open()->open("a/0.0");
  fs::remove(root / "a/0.0");
  std::string out(3, '?');
  EXPECT_EQ(
      value->read(0, std::as_writable_bytes(std::span(out.data(), out.size())), ReadMode::kWait),
      3u);
  EXPECT_EQ(out, "abc");
}

TEST_F(LocalStoreTest, ReadsBeyondFourGigabytes) {
  constexpr std::uint64_t kSize = (std::uint64_t{1} << 32) + 8;
  write("a/0.0", "");
  fs::resize_file(root / "a/0.0", kSize);  // sparse
  const auto value = open()->open("a/0.0");
  EXPECT_EQ(value->size_bytes(), kSize);
  std::array<std::byte, 16> out{};
  EXPECT_EQ(value->read(kSize - 8, out, ReadMode::kWait), 8u);
}

TEST_F(LocalStoreTest, TakesOnlyAMissingNameForAbsent) {
  EXPECT_EQ(open()->open("a/0.0"), nullptr);
  EXPECT_EQ(open()->open("b/0.0"), nullptr);
  EXPECT_EQ(open()->open(".zmetadata"), nullptr);
}

TEST_F(LocalStoreTest, RefusesADirectoryAndAFifoWithoutWaiting) {
  fs::create_directory(root / "a/0.0");
  EXPECT_TRUE(fails_with("a/0.0", "got a directory, expected a regular file"));
  ASSERT_EQ(::mkfifo((root / "a/0.1").c_str(), 0600), 0);
  EXPECT_TRUE(fails_with("a/0.1", "got a FIFO, expected a regular file"));
  fs::create_symlink("/dev/null", root / "a/0.2");
  EXPECT_TRUE(fails_with("a/0.2", "got a device, expected a regular file"));
}

TEST_F(LocalStoreTest, RefusesLinksThatLeadNowhereOrInACircle) {
  fs::create_symlink("nowhere", root / "a/0.0");
  EXPECT_TRUE(fails_with("a/0.0", "the symbolic link"));
  fs::create_directory_symlink("gone", root / "linked");
  EXPECT_TRUE(fails_with("linked/0.0", "the symbolic link"));
  fs::create_symlink("0.2", root / "a/0.1");
  fs::create_symlink("0.1", root / "a/0.2");
  EXPECT_TRUE(fails_with("a/0.1", "Too many levels of symbolic links"));
}

TEST_F(LocalStoreTest, RefusesAFileInThePlaceOfADirectory) {
  write("b", "x");
  EXPECT_TRUE(fails_with("b/0.0", "Not a directory"));
}

// Root may read everything: acts as another user while it lives.
class WithoutRoot {
 public:
  WithoutRoot() {
    if (is_root_) dropped_ = ::seteuid(65534) == 0;
  }
  ~WithoutRoot() {
    if (dropped_ && ::seteuid(0) != 0) std::abort();
  }
  WithoutRoot(const WithoutRoot&) = delete;
  WithoutRoot& operator=(const WithoutRoot&) = delete;
  bool worked() const { return !is_root_ || dropped_; }

 private:
  bool is_root_ = ::geteuid() == 0;
  bool dropped_ = false;
};

TEST_F(LocalStoreTest, RefusesWhatMayNotBeRead) {
  write("a/0.0", "x");
  write("b/0.0", "x");
  fs::permissions(root, static_cast<fs::perms>(0755));
  fs::permissions(root / "a/0.0", fs::perms::none);
  fs::permissions(root / "b", fs::perms::none);
  {
    const WithoutRoot user;
    if (!user.worked()) GTEST_SKIP() << "cannot give up the rights of root";
    EXPECT_TRUE(fails_with("a/0.0", "Permission denied"));
    EXPECT_TRUE(fails_with("b/0.0", "Permission denied"));
  }
  fs::permissions(root / "b", fs::perms::owner_all);
}

TEST_F(LocalStoreTest, NamesTheLimitWhenTooManyFilesAreOpen) {
  write("a/0.0", "x");
  const auto store = open();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);  // the lowest that is free
  ::close(next);
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(next);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  std::string message;
  try {
    store->open("a/0.0");
  } catch (const Error& error) {
    message = error.what();
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_NE(message.find("Too many open files"), std::string::npos) << message;
  EXPECT_NE(message.find("ulimit -n"), std::string::npos) << message;
}

TEST_F(LocalStoreTest, FollowsLinksToStoresAndChunks) {
  write("a/0.0", "abc");
  fs::create_symlink(root / "a/0.0", root / "a/0.1");
  EXPECT_EQ(open()->open("a/0.1")->size_bytes(), 3u);
  const fs::path link = root.string() + "_link";
  fs::create_directory_symlink(root, link);
  EXPECT_EQ(open_local_store(link.string())->open("a/0.0")->size_bytes(), 3u);
  fs::remove(link);
}

TEST_F(LocalStoreTest, RefusesKeysThatLeaveTheRoot) {
  for (const char* key : {"", "/etc/passwd", "../x", "a/../../x", "a//0", "a/./0", "a/"}) {
    EXPECT_THROW(open()->open(key), Error) << key;
  }
}

TEST_F(LocalStoreTest, ListsNamesDirectlyBelow) {
  write("a/0.0", "x");
  write("a/.zarray", "x");
  const auto sorted = [this](const std::string& prefix) {
    auto names = open()->list(prefix);
    std::sort(names.begin(), names.end());
    return names;
  };
  EXPECT_EQ(sorted("a"), (std::vector<std::string>{".zarray", "0.0"}));
  EXPECT_EQ(sorted(""), (std::vector<std::string>{"a"}));
  EXPECT_TRUE(sorted("b").empty());
  EXPECT_TRUE(sorted("a/0.0").empty());
}

TEST_F(LocalStoreTest, RefusesAMissingRootAndAFile) {
  const auto error_at = [](const fs::path& path) -> std::string {
    try {
      open_local_store(path.string());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kStore);
      return error.what();
    }
    return {};
  };
  EXPECT_EQ(error_at(root / "none"), "no such directory\n  store: " + (root / "none").string());
  write("file", "x");
  EXPECT_EQ(error_at(root / "file"), "not a directory\n  store: " + (root / "file").string());
}

TEST_F(LocalStoreTest, OpensAGroupBesideStrayFilesAndUnreadableDirectories) {
  write("zos/.zarray",
        R"({"zarr_format": 2, "filters": null, "compressor": null, "shape": [2], "chunks": [2],
                           "dtype": "<f4", "fill_value": 0, "order": "C"})");
  write("README", "stray");
  write(".DS_Store", "stray");
  fs::create_directories(root / "broken/.zarray");
  const auto group = Group::open(open());
  EXPECT_EQ(group->array_names(), (std::vector<std::string>{"broken", "zos"}));
  EXPECT_NO_THROW(group->array("zos"));
  try {
    group->array("broken");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kStore);
    EXPECT_NE(std::string(error.what()).find("got a directory"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace niskin::zarr
