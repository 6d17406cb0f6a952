// Tests the store in a folder.
#include "backup/store/folder_store.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"

namespace maxsim::backup {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FolderStoreTest : public ::testing::Test {
 protected:
  collection::TemporaryFolder folder_;
  const std::unique_ptr<ObjectStore> store_ = MakeFolderStore(folder_.Path("backups"));
};

TEST_F(FolderStoreTest, WhatIsWrittenIsListedAndRead) {
  EXPECT_THAT(*store_->List("", 10), IsEmpty());
  ASSERT_TRUE(store_->Put("b", "0123456789").ok());
  ASSERT_TRUE(store_->Put("a/c/d", "").ok());
  EXPECT_THAT(*store_->List("", 10), ElementsAre(StoredObject{"a/c/d", 0}, StoredObject{"b", 10}));
  EXPECT_THAT(*store_->List("", 1), ElementsAre(StoredObject{"a/c/d", 0}));
  EXPECT_THAT(*store_->List("a/", 10), ElementsAre(StoredObject{"a/c/d", 0}));
  EXPECT_EQ(*store_->Read("b", 8, 4), "89");
  EXPECT_EQ(*store_->Read("b", 10, 4), "");
  EXPECT_EQ(store_->Read("c", 0, 4).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(FolderStoreTest, AnUploadThatIsNotFinishedLeavesNoObject) {
  {
    const auto upload = store_->BeginUpload("a", 4);
    ASSERT_TRUE(upload.ok()) << upload.status();
    ASSERT_TRUE((*upload)->Write("123").ok());
    EXPECT_EQ((*upload)->Finish().code(), absl::StatusCode::kInternal);
  }
  EXPECT_THAT(*store_->List("", 10), IsEmpty());
}

}  // namespace
}  // namespace maxsim::backup
