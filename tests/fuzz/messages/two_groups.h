// For the fuzz targets that fuzz answers of two groups of servers: a reader of the input, and a collection in two
// parts.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collection/slots.h"
#include "server/cluster/groups/group.h"
#include "server/cluster/groups/view.h"
#include "tests/unit/server/cluster/fake_answer.h"

namespace maxsim::fuzz {

inline constexpr int kNumParts = 2;
inline constexpr uint64_t kNumDocuments = 24;

// Reads the input from its beginning. After the end of the input, returns zeros.
class Reader {
 public:
  explicit Reader(std::string_view rest) : rest_(rest) {}

  uint8_t Byte() { return static_cast<uint8_t>(Take(1)[0]); }
  uint32_t Number() {
    uint32_t number = 0;
    std::memcpy(&number, Take(sizeof(number)).data(), sizeof(number));
    return number;
  }
  std::string Take(size_t count) {
    std::string taken(rest_.substr(0, count));
    rest_.remove_prefix(taken.size());
    taken.resize(count);
    return taken;
  }
  bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

// Returns the documents "doc-0", "doc-1", ... whose ids have these slots.
inline std::vector<cluster::FakeDocument> DocumentsOf(const collection::SlotRange& slots) {
  std::vector<cluster::FakeDocument> documents;
  for (uint64_t i = 0; i < kNumDocuments; ++i) {
    std::string id = absl::StrCat("doc-", i);
    if (slots.contains(collection::SlotOf(std::string_view(id)))) documents.push_back({std::move(id), i});
  }
  return documents;
}

// Returns the collection "c" of kNumDocuments documents. A live one has one log.
inline std::shared_ptr<const cluster::CollectionView> MakeCollection(bool has_int_ids, bool is_live) {
  auto view = std::make_shared<cluster::CollectionView>();
  view->name = "c";
  view->generation = is_live ? 0 : 7;
  view->info.set_id_type(has_int_ids ? v1::ID_TYPE_INT64 : v1::ID_TYPE_STRING);
  if (is_live) view->info.mutable_live()->set_log(cluster::kStreamLog);
  for (int part = 0; part < kNumParts; ++part) {
    const collection::SlotRange slots = collection::PartitionOf(part, kNumParts);
    view->parts.push_back(
        {.target = {.group = std::make_shared<cluster::Group>(absl::StrCat("g", part), 1), .replicas = {}},
         .num_documents = DocumentsOf(slots).size(),
         .slots = slots});
    for (int32_t slot = slots.first; slot < slots.end; ++slot) {
      view->part_of_slot[static_cast<size_t>(slot)] = static_cast<int16_t>(part);
    }
  }
  return view;
}

}  // namespace maxsim::fuzz
