// Makes collections for the tests of partitions, and reads back the partitions that were made from them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "collection/build/builder.h"
#include "collection/build/sources/memory_sources.h"
#include "collection/inspection/verifier.h"
#include "collection/manifest.h"
#include "collection/partition/repartition.h"
#include "collection/shard.h"
#include "collection/slots.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::collection {

// The types of stored vectors that the tests split and merge. With a sanitizer only one type of floats, because the
// others are copied by the same code.
inline std::vector<ScalarType> PartitionedTypes() {
  if (test::kSanitized) return {ScalarType::kF16, ScalarType::kI8};
  return {ScalarType::kF16, ScalarType::kBF16, ScalarType::kF32, ScalarType::kI8};
}

// Returns documents of 1 to 9 tokens with string or integer ids. If `has_payloads`, all documents except every third
// have a payload.
inline SmallCollection ManyDocuments(int num_documents, IdType id_type, bool has_payloads) {
  SmallCollection documents;
  documents.id_type = id_type;
  documents.lengths.clear();
  documents.ids.clear();
  documents.int_ids.clear();
  std::mt19937 random(7);
  for (int idx = 0; idx < num_documents; ++idx) {
    documents.lengths.push_back(static_cast<int32_t>(random() % 9) + 1);
    documents.ids.push_back(Cat("document-", idx));
    documents.int_ids.push_back(int64_t{idx} * 11 - 40);
    if (!has_payloads) continue;
    documents.payloads.push_back(
        idx % 3 == 0 ? "" : Cat("{\"n\":", idx, ",\"text\":\"", std::string(random() % 200, 'x'), "\"}"));
  }
  return documents;
}

// Builds the documents into `count` partitions in `output`.
inline absl::StatusOr<std::vector<Manifest>> BuildParts(const SmallCollection& documents, const BuildOptions& options,
                                                        int32_t count, const BuildObserver& observer = nullptr) {
  const std::vector<float> values = documents.Values();
  MemoryTokens tokens(ElementType::kF32, documents.dim, documents.num_tokens(), values.data());
  MemoryPayloads payloads(documents.payloads);
  return BuildPartitions(options, PartitionFolders(options.folder, SlotRange(), count), *documents.MakeCatalog(),
                         tokens, documents.payloads.empty() ? nullptr : &payloads, observer);
}

// A document as a shard stores it.
struct StoredDocument {
  std::string id;
  int32_t slot = 0;
  int64_t position = 0;  // in a partition, the position; in a whole collection, the ordinal
  std::string rows;
  float scale = 0;
  std::string payload;

  friend bool operator==(const StoredDocument&, const StoredDocument&) = default;
};

inline std::ostream& operator<<(std::ostream& out, const StoredDocument& document) {
  return out << document.id << " at " << document.position << ", slot " << document.slot << ", " << document.rows.size()
             << " bytes, payload " << document.payload;
}

// Reads all documents. Checks that the verifier finds no error.
inline std::vector<StoredDocument> ReadDocuments(const std::string& folder) {
  std::vector<StoredDocument> documents;
  const auto report = VerifyCollection(folder);
  EXPECT_TRUE(report.ok()) << report.status();
  if (!report.ok()) return documents;
  EXPECT_THAT(report->problems, ::testing::IsEmpty());
  const auto manifest = ReadManifest(folder);
  for (const ShardEntry& entry : manifest->shards) {
    const auto shard = Shard::Open(folder, *manifest, entry, Access::kCopied, /*check_checksum=*/true);
    EXPECT_TRUE(shard.ok()) << shard.status();
    if (!shard.ok()) return documents;
    const DocumentsView& view = (*shard)->documents();
    for (int64_t idx = 0; idx < view.num_documents; ++idx) {
      StoredDocument& document = documents.emplace_back();
      const bool has_strings = (*shard)->id_type() == IdType::kString;
      document.id = has_strings ? std::string((*shard)->string_id(idx)) : Cat((*shard)->int_id(idx));
      document.slot = has_strings ? SlotOf((*shard)->string_id(idx)) : SlotOf((*shard)->int_id(idx));
      document.position =
          (*shard)->ordinals() == nullptr ? static_cast<int64_t>(documents.size()) - 1 : (*shard)->ordinals()[idx];
      const auto rows = (*shard)->ReadDocument(idx);
      EXPECT_TRUE(rows.ok()) << rows.status();
      document.rows.assign(reinterpret_cast<const char*>(rows->data()), rows->size());
      if (view.scales != nullptr) document.scale = view.scales[idx];
      document.payload = (*shard)->payload(idx);
    }
  }
  EXPECT_EQ(static_cast<int64_t>(documents.size()), manifest->num_documents);
  return documents;
}

// Returns those documents whose slots are in `slots`, in the same order.
inline std::vector<StoredDocument> OfSlots(const std::vector<StoredDocument>& documents, const SlotRange& slots) {
  std::vector<StoredDocument> some;
  for (const StoredDocument& document : documents) {
    if (slots.contains(document.slot)) some.push_back(document);
  }
  return some;
}

// Returns the checksums of the shard files. If two results are equal, the files have the same bytes.
inline std::vector<std::string> Checksums(const Manifest& manifest) {
  std::vector<std::string> checksums;
  for (const ShardEntry& entry : manifest.shards) checksums.push_back(Cat(entry.file, " ", entry.checksum));
  return checksums;
}

inline std::vector<std::string> FoldersOf(const std::vector<PartitionFolder>& partitions) {
  std::vector<std::string> folders;
  for (const PartitionFolder& one : partitions) folders.push_back(one.folder);
  return folders;
}

}  // namespace maxsim::collection
