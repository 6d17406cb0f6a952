// Serves a live collection from a temporary folder, on the CPU backend, with its log and compaction.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "collection/field.h"
#include "collection/log/version_memory.h"
#include "collection/manifest.h"
#include "kernels/maxsim.h"
#include "server/live/local/live_options.h"
#include "server/live/local/live_threads.h"
#include "server/store/collection/collection.h"
#include "server/store/collection_store.h"
#include "server/store/live_documents.h"
#include "tests/support/collection/corpus.h"

namespace maxsim::live {

using Outcome = store::WriteResult::Outcome;

// The value of each document, by id. A test document's rows, length and payload are computed from its value.
using Documents = std::map<std::string, int64_t>;

inline constexpr int32_t kDim = 8;  // in FP16, 16 bytes per token

store::Write Upsert(std::string_view id, int64_t value, uint64_t version = 0);
store::Write Delete(std::string_view id, uint64_t version = 0);
template <typename... Writes>
std::vector<store::Write> List(Writes... writes) {
  std::vector<store::Write> list;
  (list.push_back(std::move(writes)), ...);
  return list;
}
int32_t NumTokens(int64_t value);

// Makes a live collection without documents. Its log forgets the version of a deleted id once later deletes have
// counted `remembered_bytes` more bytes (collection/log/version_memory.h).
void CreateWithMemory(const std::string& path, uint64_t remembered_bytes,
                      const std::optional<collection::CodesFormat>& codes = std::nullopt,
                      const std::vector<collection::Field>& fields = {});

// Returns all live documents, as a scan of the collection sees them. Checks that each document is complete and occurs
// once, that Find and the totals agree with the documents, and that the stored codes are those of the documents.
Documents Contents(const store::Collection& collection);

// Returns one letter per result: 'A'pplied, 'S'tale or 'N'ot found.
std::string Outcomes(const store::WriteResults& results);

class LiveTest : public testing::Test {
 protected:
  explicit LiveTest(std::unique_ptr<Backend> backend = *CreateCpuBackend({.num_threads = 1, .isa = ""}));
  ~LiveTest() override;

  // Makes the collection without documents. Its log forgets the version of a deleted id once later deletes have counted
  // `remembered_bytes` more bytes (collection/log/version_memory.h).
  void Create(uint64_t remembered_bytes = collection::kRememberedBytes);
  // TryOpen and Open load the collection and create its log if it has none. Reopen unloads the collection first, like a
  // restart of the server.
  absl::Status TryOpen(const std::string& path, bool live = true);
  void Open();
  void Close() { store_.reset(); }
  void Reopen();

  store::LiveDocuments& live() { return *live_; }
  std::shared_ptr<const store::Collection> Find() { return *store_->Find("c"); }
  Documents Now() { return Contents(*Find()); }
  // Makes the writes, and waits for their results.
  absl::StatusOr<store::WriteResults> Write(std::vector<store::Write> writes);
  store::WriteResults MustWrite(std::vector<store::Write> writes);
  // Compacts all writes so far. Fails the test if that is impossible.
  void MustCompact();
  // Waits until the condition holds. Returns false if it does not within kTestLimit.
  static bool Eventually(const std::function<bool()>& condition);

  const test::TemporaryFolder folder_;
  const std::string path_ = folder_ / "c";
  const std::unique_ptr<Backend> backend_;
  std::optional<collection::CodesFormat> codes_;  // of the collection that Create makes
  std::vector<collection::Field> fields_;         // likewise
  LiveOptions options_;
  store::StoreOptions store_options_{.memory_reserve_bytes = 0, .host_reserve_bytes = 0};
  static constexpr int kMaxCollections = 15;
  LiveThreads threads_{kMaxCollections};
  std::unique_ptr<store::CollectionStore> store_;
  std::shared_ptr<store::LiveDocuments> live_;
};

}  // namespace maxsim::live
