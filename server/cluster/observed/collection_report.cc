#include "server/cluster/observed/collection_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/saturating.h"
#include "base/text.h"
#include "client/slot_message.h"

namespace maxsim::cluster {

const v1::CollectionInfo* ReportAbout(std::string_view name, const v1::GetInfoResponse* info) {
  if (info == nullptr) return nullptr;
  for (const v1::CollectionInfo& collection : info->collections()) {
    if (collection.name() == name) return &collection;
  }
  return nullptr;
}

collection::SlotRange SlotsOf(const v1::CollectionInfo& info) {
  if (!info.has_partition()) return {};
  return client::SlotRangeOf(info.partition());
}

absl::Status CheckSameShape(const v1::CollectionInfo& a, const v1::CollectionInfo& b, const std::string& name) {
  const auto differs = [&](const char* what, const std::string& left, const std::string& right) {
    return absl::UnavailableError(absl::StrCat("collection ", Quote(name), ": ", what, " is ", left,
                                               " on one server and ", right, " on another"));
  };
  if (a.dim() != b.dim()) return differs("dim", absl::StrCat(a.dim()), absl::StrCat(b.dim()));
  if (a.id_type() != b.id_type()) {
    return differs("id_type", v1::IdType_Name(a.id_type()), v1::IdType_Name(b.id_type()));
  }
  if (a.storage() != b.storage()) {
    return differs("storage", v1::DataType_Name(a.storage()), v1::DataType_Name(b.storage()));
  }
  if (a.rotation_seed() != b.rotation_seed()) {
    return differs("rotation_seed", absl::StrCat(a.rotation_seed()), absl::StrCat(b.rotation_seed()));
  }
  if (a.has_live() != b.has_live())
    return differs("live", a.has_live() ? "true" : "false", b.has_live() ? "true" : "false");
  return absl::OkStatus();
}

void AddUp(const v1::CollectionInfo& part, bool is_first, v1::CollectionInfo& sum) {
  sum.set_num_documents(SaturatingAdd(sum.num_documents(), part.num_documents()));
  sum.set_num_tokens(SaturatingAdd(sum.num_tokens(), part.num_tokens()));
  sum.set_num_shards(SaturatingAdd(sum.num_shards(), part.num_shards()));
  sum.set_token_bytes(SaturatingAdd(sum.token_bytes(), part.token_bytes()));
  sum.set_resident_bytes(SaturatingAdd(sum.resident_bytes(), part.resident_bytes()));
  sum.set_unavailable_documents(SaturatingAdd(sum.unavailable_documents(), part.unavailable_documents()));
  sum.set_has_payloads(sum.has_payloads() || part.has_payloads());
  sum.set_loaded_at_unix_seconds(std::max(sum.loaded_at_unix_seconds(), part.loaded_at_unix_seconds()));
  if (sum.residency().empty()) sum.set_residency(part.residency());
  sum.set_code_planes(is_first ? part.code_planes() : std::min(sum.code_planes(), part.code_planes()));
  if (!part.has_live()) return;
  v1::LiveInfo& live = *sum.mutable_live();
  live.set_sequence(is_first ? part.live().sequence() : std::min(live.sequence(), part.live().sequence()));
  live.set_compacted_sequence(std::max(live.compacted_sequence(), part.live().compacted_sequence()));
  live.set_num_changed_documents(SaturatingAdd(live.num_changed_documents(), part.live().num_changed_documents()));
  live.set_num_deleted_documents(SaturatingAdd(live.num_deleted_documents(), part.live().num_deleted_documents()));
  live.set_num_segments(SaturatingAdd(live.num_segments(), part.live().num_segments()));
  live.set_segment_bytes(SaturatingAdd(live.segment_bytes(), part.live().segment_bytes()));
  live.set_segment_used_bytes(SaturatingAdd(live.segment_used_bytes(), part.live().segment_used_bytes()));
  live.set_log_bytes(SaturatingAdd(live.log_bytes(), part.live().log_bytes()));
  if (live.log().empty()) live.set_log(part.live().log());
  live.set_lag(std::max(live.lag(), part.live().lag()));
  live.set_is_compacting(live.is_compacting() || part.live().is_compacting());
  if (live.error().empty()) live.set_error(part.live().error());
}

}  // namespace maxsim::cluster
