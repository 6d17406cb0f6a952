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

// Documents are known by a value: their rows, their length and their payload follow from it.
using Documents = std::map<std::string, int64_t>;

inline constexpr int32_t kDim = 8;  // FP16: 16 bytes a token

store::Write Upsert(std::string_view id, int64_t value, uint64_t version = 0);
store::Write Delete(std::string_view id, uint64_t version = 0);
template <typename... Writes>
std::vector<store::Write> List(Writes... writes) {
  std::vector<store::Write> list;
  (list.push_back(std::move(writes)), ...);
  return list;
}
int32_t NumTokens(int64_t value);

// Makes a live collection without documents. Its log remembers versions of deleted ids for `remembered_bytes`.
void CreateWithMemory(const std::string& path, uint64_t remembered_bytes,
                      const std::optional<collection::CodesFormat>& codes = std::nullopt,
                      const std::vector<collection::Field>& fields = {});

// Reads all documents that are alive, as a scan of the collection sees them, and checks that each is whole, that none
// is there twice, that Find and the totals agree with them, and that codes are those of the documents, to the bit.
Documents Contents(const store::Collection& collection);

// Returns the outcomes of results in a row: 'A'pplied, 'S'tale, 'N'ot found.
std::string Outcomes(const store::WriteResults& results);

class LiveTest : public testing::Test {
 protected:
  explicit LiveTest(std::unique_ptr<Backend> backend = *CreateCpuBackend({.num_threads = 1, .isa = ""}));
  ~LiveTest() override;

  // Makes the collection without documents. Its log remembers versions of deleted ids for `remembered_bytes`.
  void Create(uint64_t remembered_bytes = collection::kRememberedBytes);
  // Loads the collection, and makes its log if it has none. Reopen unloads it first, as the end of a process does.
  absl::Status TryOpen(const std::string& path, bool live = true);
  void Open();
  void Close() { store_.reset(); }
  void Reopen();

  store::LiveDocuments& live() { return *live_; }
  std::shared_ptr<const store::Collection> Find() { return *store_->Find("c"); }
  Documents Now() { return Contents(*Find()); }
  // Writes, and waits.
  absl::StatusOr<store::WriteResults> Write(std::vector<store::Write> writes);
  store::WriteResults MustWrite(std::vector<store::Write> writes);
  // Compacts what is written.
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
  static constexpr int kMaxCollections = 24;
  LiveThreads threads_{kMaxCollections};
  std::unique_ptr<store::CollectionStore> store_;
  std::shared_ptr<store::LiveDocuments> live_;
};

}  // namespace maxsim::live
