#include "server/cluster/groups/check_info.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "client/slot_message.h"
#include "collection/collection_name.h"
#include "collection/generations/kept_generations.h"
#include "collection/manifest.h"
#include "collection/slots.h"
#include "kernels/limits.h"
#include "server/cluster/groups/cluster_options.h"
#include "server/cluster/observed/slot_layout.h"

namespace maxsim::cluster {
namespace {

template <typename... Args>
std::optional<AnswerFault> WrongInfo(const char* field, const Args&... message) {
  return AnswerFault{field, absl::StrCat(message...)};
}

bool IsStorage(v1::DataType type) {
  return type == v1::DATA_TYPE_F32 || type == v1::DATA_TYPE_F16 || type == v1::DATA_TYPE_BF16 ||
         type == v1::DATA_TYPE_I8 || type == v1::DATA_TYPE_RESIDUAL_1 || type == v1::DATA_TYPE_RESIDUAL_2 ||
         type == v1::DATA_TYPE_RESIDUAL_4 || type == v1::DATA_TYPE_RESIDUAL_8;
}

// Checks the fields that a collection has only after a generation of it was loaded.
std::optional<AnswerFault> CheckLoaded(const std::string& path, const v1::CollectionInfo& info) {
  if (info.dim() < static_cast<uint32_t>(kMinDim) || info.dim() > static_cast<uint32_t>(kMaxDim)) {
    return WrongInfo("dim", path, ".dim is ", info.dim(), "; must be ", kMinDim, " to ", kMaxDim);
  }
  if (!IsStorage(info.storage())) {
    return WrongInfo("storage", path, ".storage is ", static_cast<int>(info.storage()), ", which is not a type");
  }
  if (info.id_type() != v1::ID_TYPE_STRING && info.id_type() != v1::ID_TYPE_INT64) {
    return WrongInfo("id_type", path, ".id_type is ", static_cast<int>(info.id_type()), ", which is not a type");
  }
  if (!std::isfinite(info.loaded_at_unix_seconds())) {
    return WrongInfo("loaded_at_unix_seconds", path, ".loaded_at_unix_seconds is ", info.loaded_at_unix_seconds());
  }
  if (info.reload_revision() > collection::kMaxReloadRevision) {
    return WrongInfo("reload_revision", path, ".reload_revision is ", info.reload_revision(), "; must be at most ",
                     collection::kMaxReloadRevision);
  }
  if (info.encoder().dim() > static_cast<uint32_t>(std::numeric_limits<int32_t>::max())) {
    return WrongInfo("encoder", path, ".encoder.dim is ", info.encoder().dim());
  }
  return std::nullopt;
}

}  // namespace

std::optional<AnswerFault> CheckInfoAnswer(const v1::GetInfoResponse& answer) {
  if (const size_t bytes = answer.ByteSizeLong(); bytes > kMaxInfoBytes) {
    return WrongInfo("collections", "GetInfo takes ", bytes, " bytes; must be at most ", kMaxInfoBytes);
  }
  if (answer.groups_size() > 0) {
    return WrongInfo("groups", "it is a router, but a router's groups must be servers: does it list itself?");
  }
  if (!answer.zone().empty() && !IsZoneName(answer.zone())) {
    return WrongInfo("zone", "zone is ", Quote(answer.zone()), "; must be 1 to 64 of A-Z a-z 0-9 . _ -");
  }
  std::set<std::string_view> names;
  for (int i = 0; i < answer.collections_size(); ++i) {
    const v1::CollectionInfo& info = answer.collections(i);
    const std::string path = absl::StrCat("collections[", i, "]");
    if (!collection::IsCollectionName(info.name()) || !names.insert(info.name()).second) {
      return WrongInfo("name", path, ".name is ", Quote(info.name()), ", which is not a valid name or is repeated");
    }
    if (info.has_partition() && !client::IsSlotRange(info.partition())) {
      return WrongInfo("partition", path, ".partition is ", info.partition().first_slot(), " to ",
                       info.partition().end_slot(), "; must be a range within 0 to ", collection::kNumSlots);
    }
    if (info.live().has_layout()) {
      const std::string fault = LayoutFault(info.live().layout());
      if (!fault.empty()) return WrongInfo("layout", path, ".live.layout.", fault);
    }
    if (info.generation() == 0) continue;
    if (auto fault = CheckLoaded(path, info); fault.has_value()) return fault;
  }
  return std::nullopt;
}

std::optional<AnswerFault> CheckChangedCollection(const std::string& name, const v1::CollectionInfo& answered) {
  if (answered.name() == name) return std::nullopt;
  return WrongInfo("collection", "collection.name is ", Quote(answered.name()), ", but ", Quote(name),
                   " was to be changed");
}

std::optional<AnswerFault> CheckSnapshotAnswer(uint64_t least, const v1::SnapshotCollectionResponse& answer) {
  const auto max = static_cast<uint64_t>(collection::kMaxLogSequence);
  if (answer.sequence() >= least && answer.sequence() <= max) return std::nullopt;
  return WrongInfo("sequence", "sequence is ", answer.sequence(), "; must be ", least, " to ", max);
}

std::optional<AnswerFault> CheckLayoutAnswer(const v1::SetLayoutRequest& request, const v1::SetLayoutResponse& answer) {
  const v1::SlotLayout& layout = answer.layout();
  if (layout.revision() <= request.expected_revision()) {
    return WrongInfo("layout", "layout.revision is ", layout.revision(), "; must be more than expected_revision, ",
                     request.expected_revision());
  }
  const auto is_same = [](const v1::SlotOwner& a, const v1::SlotOwner& b) {
    return a.group() == b.group() && a.slots().first_slot() == b.slots().first_slot() &&
           a.slots().end_slot() == b.slots().end_slot();
  };
  if (std::equal(layout.owners().begin(), layout.owners().end(), request.owners().begin(), request.owners().end(),
                 is_same)) {
    return std::nullopt;
  }
  return WrongInfo("layout", "layout.owners are not those that were to be set");
}

}  // namespace maxsim::cluster
