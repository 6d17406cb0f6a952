// Writes changes to a collection on the CPU backend, and records which documents the collection should then have.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/maxsim.h"
#include "server/store/collection/changes.h"
#include "server/store/collection/collection.h"
#include "server/store/collection/segment.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/values/random_documents.h"

namespace maxsim::test {

// The rows and the payload that a document should have.
struct ExpectedDocument {
  std::string rows;
  float scale = 0;
  int32_t num_tokens = 0;
  std::string payload = {};
  uint64_t sequence = 0;
};

// Documents by id, in the order of shards and then of writes.
class ExpectedDocuments {
 public:
  void Put(const std::string& id, ExpectedDocument document) {
    Remove(id);
    by_place_[next_] = id;
    documents_[id] = {next_++, std::move(document)};
  }
  void Remove(const std::string& id) {
    const auto found = documents_.find(id);
    if (found == documents_.end()) return;
    by_place_.erase(found->second.first);
    documents_.erase(found);
  }
  bool Has(const std::string& id) const { return documents_.count(id) != 0; }
  const ExpectedDocument& Get(const std::string& id) const { return documents_.at(id).second; }
  size_t size() const { return documents_.size(); }
  std::vector<std::string> ids() const {
    std::vector<std::string> all;
    for (const auto& [place, id] : by_place_) all.push_back(id);
    return all;
  }

 private:
  uint64_t next_ = 0;
  std::map<uint64_t, std::string> by_place_;
  std::map<std::string, std::pair<uint64_t, ExpectedDocument>> documents_;
};

// Applies each write twice: to the changes of a collection, as a live collection does, and to a list of the documents
// that the collection should then have.
class LiveCorpus {
 public:
  // `base` must be loaded on `backend`, and must have been built from `documents` and `options`.
  LiveCorpus(Backend* backend, std::shared_ptr<const store::Collection> base, const RandomDocuments& documents,
             const CorpusOptions& options, int64_t segment_documents)
      : backend_(backend),
        base_(std::move(base)),
        changes_(std::make_shared<store::Changes>(base_->shared_generation())),
        segment_documents_(segment_documents) {
    for (int64_t n = 0; n < documents.num_documents(); ++n) {
      expected_.Put(CorpusId(options, n), DocumentOf(documents, n));
    }
  }

  static ExpectedDocument DocumentOf(const RandomDocuments& documents, int64_t n) {
    const DocumentsView view = documents.view();
    const size_t row_bytes = static_cast<size_t>(view.dim) * SizeOf(view.type);
    const auto* const begin = static_cast<const char*>(view.tokens) + static_cast<size_t>(view.offsets[n]) * row_bytes;
    return {.rows = std::string(begin, static_cast<size_t>(documents.length(n)) * row_bytes),
            .scale = view.scales == nullptr ? 0 : view.scales[n],
            .num_tokens = static_cast<int32_t>(documents.length(n))};
  }

  void Upsert(const std::string& id, const RandomDocuments& documents, int64_t n, const std::string& payload = "") {
    ExpectedDocument document = DocumentOf(documents, n);
    document.payload = payload;
    document.sequence = ++sequence_;
    const collection::LogRecord record{.kind = collection::LogRecord::Kind::kUpsert,
                                       .sequence = sequence_,
                                       .string_id = id,
                                       .num_tokens = document.num_tokens,
                                       .scale = document.scale,
                                       .rows = document.rows,
                                       .payload = document.payload};
    if (changes_->num_segments() == 0 || !Last()->HasRoomFor(1, document.num_tokens, 4096)) AddSegment();
    uint32_t lost = 0;
    const auto ordinal = static_cast<uint32_t>(Last()->num_documents());
    ASSERT_TRUE(Last()->Append(absl::MakeConstSpan(&record, 1), &lost).ok());
    changes_->Upsert(record, changes_->num_segments() - 1, ordinal);
    expected_.Put(id, std::move(document));
  }
  void Delete(const std::string& id) {
    const collection::LogRecord record{
        .kind = collection::LogRecord::Kind::kDelete, .sequence = ++sequence_, .string_id = id};
    EXPECT_EQ(changes_->Holds(record), expected_.Has(id));
    changes_->Delete(record);
    expected_.Remove(id);
  }

  std::shared_ptr<const store::Collection> Snapshot() { return changes_->Snapshot(sequence_); }
  const ExpectedDocuments& expected() const { return expected_; }
  const store::Changes& changes() const { return *changes_; }
  uint64_t sequence() const { return sequence_; }

 private:
  const std::shared_ptr<store::Segment>& Last() const { return changes_->segment(changes_->num_segments() - 1); }
  void AddSegment() {
    const int planes = base_->generation().code_planes();
    store::Segment::Shape shape{.tokens = {.type = base_->storage(),
                                           .dim = base_->dim(),
                                           .max_documents = segment_documents_,
                                           .max_tokens = segment_documents_ * 16,
                                           .rotation_seed = base_->manifest().rotation_seed},
                                .id_type = base_->manifest().id_type,
                                .max_text_bytes = 1 << 20,
                                .tier = store::Residency::kHost};
    auto documents = backend_->CreateAppendable(shape.tokens);
    ASSERT_TRUE(documents.ok()) << documents.status();
    store::Segment::Memory memory{.device = 0, .documents = *documents};
    if (planes > 0) {
      shape.codes = store::Segment::Codes{collection::CodeShapeOf(base_->manifest()), planes};
      auto codes = backend_->CreateAppendableCodes({.codes = shape.codes->shape,
                                                    .planes = planes,
                                                    .max_documents = shape.tokens.max_documents,
                                                    .max_tokens = shape.tokens.max_tokens});
      ASSERT_TRUE(codes.ok()) << codes.status();
      memory.codes = *codes;
    }
    changes_->AddSegment(
        std::make_shared<store::Segment>(shape, std::vector<store::Segment::Memory>{memory}, nullptr, 0));
  }

  Backend* const backend_;
  const std::shared_ptr<const store::Collection> base_;
  const std::shared_ptr<store::Changes> changes_;
  const int64_t segment_documents_;
  ExpectedDocuments expected_;
  uint64_t sequence_ = 0;
};

}  // namespace maxsim::test
