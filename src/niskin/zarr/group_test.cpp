#include "niskin/zarr/group.h"

#include <gtest/gtest.h>

#include "niskin/zarr/stores/counting.h"
#include "niskin/zarr/stores/memory.h"

namespace niskin::zarr {
namespace {

constexpr const char* kArray =
    R"({"zarr_format": 2, "filters": null, "compressor": null, "shape": [2], "chunks": [2], "dtype": "<f4",
        "fill_value": "NaN", "order": "C"})";

class GroupTest : public ::testing::Test {
 protected:
  std::string error_of(const std::string& name, ErrorKind kind) const {
    try {
      Group::open(store)->array(name);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      return error.what();
    }
    ADD_FAILURE() << name << " was opened";
    return {};
  }
  std::string open_error(ErrorKind kind) const {
    try {
      Group::open(store);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      return error.what();
    }
    ADD_FAILURE() << "opened";
    return {};
  }

  std::shared_ptr<MemoryStore> store = std::make_shared<MemoryStore>("test.zarr");
};

TEST_F(GroupTest, ReadsConsolidatedMetadataInOneRead) {
  store->put(
      ".zmetadata",
      std::string(R"({"zarr_consolidated_format": 1, "metadata": {".zgroup": {"zarr_format": 2},
      ".zattrs": {"nested": {"dict": NaN}}, "zos/.zarray": )") +
          kArray +
          R"(, "zos/.zattrs": {"missing_value": NaN, "_ARRAY_DIMENSIONS": ["time"]},
      "deep/down/uo/.zarray": )" +
          kArray + "}}");
  const auto counting = std::make_shared<CountingStore>(store);
  const auto group = Group::open(counting);
  EXPECT_EQ(group->array_names(), (std::vector<std::string>{"deep/down/uo", "zos"}));
  EXPECT_EQ(group->array("zos")->meta().dimension_names, (std::vector<std::string>{"time"}));
  EXPECT_EQ(group->array("deep/down/uo")->value_key({0}), "deep/down/uo/0");
  EXPECT_EQ(counting->counts().opens, 1u);
}

TEST_F(GroupTest, FindsTheArraysOfAStoreThatIsNotConsolidated) {
  store->put(".zgroup", R"({"zarr_format": 2})");
  store->put("zos/.zarray", kArray);
  store->put("zos/.zattrs", R"({"_ARRAY_DIMENSIONS": ["time"], "_FillValue": 5})");
  store->put("so_0/.zarray", kArray);
  store->put("README", "stray");
  store->put("._zos", "stray");
  store->put("__MACOSX/zos", "stray");
  store->put("sub/group/uo/.zarray", kArray);
  const auto group = Group::open(store);
  EXPECT_EQ(group->array_names(), (std::vector<std::string>{"so_0", "zos"}));
  EXPECT_EQ(group->array("zos")->meta().missing_markers, (std::vector<float>{5}));
  EXPECT_EQ(group->array("sub/group/uo")->meta().shape, (Shape{2}));
}

TEST_F(GroupTest, OpensArraysWithoutARootGroup) {
  store->put("zos/.zarray", kArray);
  EXPECT_EQ(Group::open(store)->array_names(), (std::vector<std::string>{"zos"}));
}

TEST_F(GroupTest, NamesNearNamesForAMissingArray) {
  for (const char* name : {"thetao_0", "thetao_1", "thetao_2", "thetao_3", "zos"}) {
    store->put(std::string(name) + "/.zarray", kArray);
  }
  EXPECT_EQ(error_of("thetoa_0", ErrorKind::kStore),
            "thetoa_0: no such array among 5\n"
            "  store: test.zarr\n"
            "  hint:  did you mean thetao_0?");
  EXPECT_NE(
      error_of("thetao", ErrorKind::kStore).find("did you mean thetao_0, thetao_1, thetao_2?"),
      std::string::npos);
  EXPECT_EQ(error_of("chlorophyll", ErrorKind::kStore),
            "chlorophyll: no such array among 5\n  store: test.zarr");
}

TEST_F(GroupTest, SaysWhenConsolidatedMetadataIsOlderThanTheStore) {
  store->put(".zmetadata", R"({"metadata": {}})");
  store->put("zos/.zarray", kArray);
  EXPECT_NE(error_of("zos", ErrorKind::kStore).find("consolidate its metadata again"),
            std::string::npos);
}

TEST_F(GroupTest, OpensBesideAnArrayThatCannotBeRead) {
  store->put("zos/.zarray", kArray);
  store->put("names/.zarray", R"({"zarr_format": 2, "dtype": "|O"})");
  store->put("broken/.zarray", "{");
  const auto group = Group::open(store);
  EXPECT_NO_THROW(group->array("zos"));
  EXPECT_NE(error_of("names", ErrorKind::kFormat).find("names: dtype: got \"|O\""),
            std::string::npos);
  const std::string broken = error_of("broken", ErrorKind::kFormat);
  EXPECT_NE(broken.find("broken: broken/.zarray: not valid JSON at line 1"), std::string::npos)
      << broken;
  EXPECT_NE(broken.find("\n  store: test.zarr"), std::string::npos) << broken;
}

TEST_F(GroupTest, RefusesWhatIsNoGroupOfFormatTwo) {
  EXPECT_NE(open_error(ErrorKind::kStore).find("no Zarr group"), std::string::npos);
  store->put("zarr.json", R"({"zarr_format": 3, "node_type": "group"})");
  EXPECT_NE(open_error(ErrorKind::kFormat).find("format 3"), std::string::npos);
  store->put(".zarray", kArray);
  EXPECT_NE(open_error(ErrorKind::kFormat).find("the root is an array"), std::string::npos);
  store->put(".zmetadata", "{\"metadata\": [");
  EXPECT_NE(open_error(ErrorKind::kFormat).find(".zmetadata: not valid JSON at line 1, column 15"),
            std::string::npos)
      << open_error(ErrorKind::kFormat);
  store->put(".zmetadata", "[]");
  EXPECT_NE(open_error(ErrorKind::kFormat).find(".zmetadata: expected an object"),
            std::string::npos);
}

}  // namespace
}  // namespace niskin::zarr
