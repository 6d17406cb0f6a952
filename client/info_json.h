// Formats a server's description of its collections as JSON, in the same form for HTTP and maxsimctl. `Json` is
// nlohmann::json or nlohmann::ordered_json.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::client {

template <typename Json>
Json EncoderJson(const v1::EncoderInfo& encoder) {
  return {{"model", encoder.model()}, {"fingerprint", encoder.fingerprint()}, {"dim", encoder.dim()}};
}

template <typename Json>
Json PartitionJson(const v1::PartitionInfo& partition) {
  return {{"first_slot", partition.first_slot()}, {"end_slot", partition.end_slot()}};
}

// The kind is "keyword", "keywords", "integer" and so on.
template <typename Json>
Json FieldJson(const v1::FieldDeclaration& field) {
  const std::string kind = v1::FieldKind_Name(field.kind());
  constexpr std::string_view kPrefix = "FIELD_KIND_";
  return {{"name", field.name()},
          {"kind", absl::AsciiStrToLower(kind.substr(std::min(kPrefix.size(), kind.size())))},
          {"path", field.path()}};
}

template <typename Json>
Json TierJson(const v1::TierInfo& tier) {
  return {{"tier", tier.tier()},
          {"device", tier.device()},
          {"num_shards", tier.num_shards()},
          {"token_bytes", tier.token_bytes()},
          {"resident_bytes", tier.resident_bytes()}};
}

// PUT /v1/collections/NAME/layout reads `owners` in the same form.
template <typename Json>
Json LayoutJson(const v1::SlotLayout& layout) {
  Json owners = Json::array();
  for (const v1::SlotOwner& owner : layout.owners()) {
    owners.push_back({{"group", owner.group()}, {"slots", PartitionJson<Json>(owner.slots())}});
  }
  return {{"revision", layout.revision()}, {"owners", std::move(owners)}};
}

template <typename Json>
Json LiveJson(const v1::LiveInfo& live) {
  Json json = {{"sequence", live.sequence()},
               {"compacted_sequence", live.compacted_sequence()},
               {"num_changed_documents", live.num_changed_documents()},
               {"num_deleted_documents", live.num_deleted_documents()},
               {"num_segments", live.num_segments()},
               {"segment_bytes", live.segment_bytes()},
               {"segment_used_bytes", live.segment_used_bytes()},
               {"log_bytes", live.log_bytes()},
               {"is_compacting", live.is_compacting()},
               {"log", live.log()},
               {"lag", live.lag()}};
  if (live.has_layout()) json["layout"] = LayoutJson<Json>(live.layout());
  if (!live.error().empty()) json["error"] = live.error();
  return json;
}

// Formats how a scan of codes chose the documents that were scored.
template <typename Json>
Json RefinementJson(const v1::Refinement& refinement) {
  Json json = {{"planes", refinement.planes()},
               {"documents", refinement.documents()},
               {"certificate", v1::Certificate_Name(refinement.certificate()).substr(12)},
               {"margin", refinement.margin()}};
  if (!refinement.has_outside_score()) return json;
  json["outside_score"] = refinement.outside_score();
  json["outside_is_bound"] = refinement.outside_is_bound();
  return json;
}

}  // namespace maxsim::client
