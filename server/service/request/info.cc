#include "server/service/request/info.h"

#include <string>

#include "absl/time/time.h"
#include "base/text.h"
#include "client/slot_message.h"
#include "maxsim_version.h"
#include "server/service/layout/count_owned.h"
#include "server/service/layout/layout_message.h"

namespace maxsim::service {
namespace {

v1::CollectionState StateOf(store::CollectionStatus::State state) {
  switch (state) {
    case store::CollectionStatus::State::kLoading:
      return v1::COLLECTION_STATE_LOADING;
    case store::CollectionStatus::State::kReady:
      return v1::COLLECTION_STATE_READY;
    case store::CollectionStatus::State::kFailed:
      return v1::COLLECTION_STATE_FAILED;
  }
  return v1::COLLECTION_STATE_UNSPECIFIED;
}

// Each value in the messages is the C++ enumeration's value plus 1.
static_assert(v1::FIELD_KIND_KEYWORD == 1 + static_cast<int>(collection::FieldKind::kKeyword));
static_assert(v1::FIELD_KIND_TIME == 1 + static_cast<int>(collection::FieldKind::kTime));
static_assert(v1::FIELD_KIND_TIME == v1::FieldKind_MAX);

}  // namespace

std::optional<collection::FieldKind> KindOf(v1::FieldKind kind) {
  if (kind < v1::FIELD_KIND_KEYWORD || kind > v1::FieldKind_MAX) return std::nullopt;
  return static_cast<collection::FieldKind>(kind - 1);
}

v1::CollectionInfo ToProto(const store::CollectionStatus& status, const store::DeviceSet& devices) {
  v1::CollectionInfo info;
  info.set_name(status.name);
  info.set_state(StateOf(status.state));
  info.set_error(status.error);
  // A message with strings that are not UTF-8 cannot be read by clients.
  info.set_path(Printable(status.path, status.path.size()));
  if (status.live != nullptr) *info.mutable_live() = ToProto(status.live->state());
  if (status.collection == nullptr) return info;
  const store::Collection& collection = *status.collection;
  const collection::Manifest& manifest = collection.manifest();
  info.set_generation(static_cast<uint64_t>(manifest.generation));
  info.set_dim(static_cast<uint32_t>(manifest.dim));
  info.set_storage(static_cast<v1::DataType>(manifest.storage));
  info.set_id_type(manifest.id_type == collection::IdType::kString ? v1::ID_TYPE_STRING : v1::ID_TYPE_INT64);
  info.set_num_documents(collection.num_documents());
  info.set_num_tokens(collection.num_tokens());
  info.set_num_shards(manifest.shards.size());
  info.set_token_bytes(collection.num_tokens() * static_cast<uint64_t>(RowBytes(manifest.storage, manifest.dim)));
  info.set_resident_bytes(collection.resident_bytes());
  info.set_residency(collection.tiers());
  info.set_code_planes(static_cast<uint32_t>(collection.code_planes()));
  info.set_has_payloads(manifest.has_payloads);
  info.set_loaded_at_unix_seconds(absl::ToDoubleSeconds(collection.loaded_at() - absl::UnixEpoch()));
  info.set_unavailable_documents(collection.num_unavailable(devices));
  if (manifest.encoder.has_value()) *info.mutable_encoder() = ToProto(*manifest.encoder);
  if (manifest.partition.has_value()) *info.mutable_partition() = client::SlotMessageOf(*manifest.partition);
  info.set_rotation_seed(manifest.rotation_seed);
  if (status.live == nullptr) info.set_fingerprint(collection.generation().fingerprint());
  info.set_reload_revision(status.reload_revision);
  info.set_previous_generation(static_cast<uint64_t>(status.previous_generation));
  for (const collection::Field& field : manifest.fields) {
    v1::FieldDeclaration& declared = *info.add_fields();
    declared.set_name(field.name);
    declared.set_kind(static_cast<v1::FieldKind>(1 + static_cast<int>(field.kind)));
    declared.set_path(field.path);
  }
  for (const store::Collection::TierUsage& share : collection.tier_usage()) {
    v1::TierInfo& tier = *info.add_tiers();
    tier.set_tier(std::string(store::Name(share.tier)));
    tier.set_device(static_cast<uint32_t>(devices.number(share.device)));
    tier.set_num_shards(share.num_shards);
    tier.set_token_bytes(share.token_bytes);
    tier.set_resident_bytes(share.resident_bytes());
  }
  return info;
}

v1::LiveInfo ToProto(const store::LiveState& state) {
  v1::LiveInfo info;
  info.set_sequence(state.sequence);
  info.set_compacted_sequence(state.compacted_sequence);
  info.set_num_changed_documents(state.num_changed_documents);
  info.set_num_deleted_documents(state.num_deleted_documents);
  info.set_num_segments(state.num_segments);
  info.set_segment_bytes(state.segment_bytes);
  info.set_segment_used_bytes(state.segment_used_bytes);
  info.set_log_bytes(state.log_bytes);
  info.set_error(std::string(state.status.message()));
  info.set_is_compacting(state.is_compacting);
  info.set_log(state.stream.has_value() ? "nats" : "local");
  info.set_lag(state.lag());
  if (state.layout != nullptr) *info.mutable_layout() = ToProto(*state.layout);
  return info;
}

v1::EncoderInfo ToProto(const collection::EncoderIdentity& encoder) {
  v1::EncoderInfo info;
  info.set_model(encoder.model);
  info.set_fingerprint(encoder.fingerprint);
  info.set_dim(static_cast<uint32_t>(encoder.dim));
  return info;
}

v1::Limits ToProto(const RequestLimits& limits, uint64_t max_queue_work) {
  v1::Limits proto;
  proto.set_max_queries_per_request(static_cast<uint32_t>(limits.max_queries_per_request));
  proto.set_max_query_tokens(static_cast<uint32_t>(limits.max_query_tokens));
  proto.set_max_document_tokens(static_cast<uint32_t>(limits.max_document_tokens));
  proto.set_max_candidates_per_query(static_cast<uint64_t>(limits.max_candidates_per_query));
  proto.set_max_top_k(static_cast<uint32_t>(limits.max_top_k));
  proto.set_default_top_k(static_cast<uint32_t>(limits.default_top_k));
  proto.set_max_request_bytes(limits.max_request_bytes);
  proto.set_max_request_work(limits.max_request_work);
  proto.set_max_queue_work(max_queue_work);
  proto.set_max_inline_documents(static_cast<uint64_t>(limits.max_inline_documents));
  proto.set_max_answer_bytes(limits.max_answer_bytes);
  proto.set_max_alignments(static_cast<uint64_t>(limits.max_alignments));
  return proto;
}

v1::GetInfoResponse BuildInfo(const store::DeviceSet& devices, const store::CollectionStore& store,
                              const RequestLimits& limits, uint64_t max_queue_work,
                              std::unique_ptr<v1::EncoderInfo> encoder) {
  v1::GetInfoResponse response;
  if (encoder != nullptr) *response.mutable_encoder() = *std::move(encoder);
  response.set_version(kVersion);
  response.set_commit(kCommit);
  *response.mutable_limits() = ToProto(limits, max_queue_work);
  for (size_t idx = 0; idx < devices.size(); ++idx) {
    const Backend& backend = devices.backend(idx);
    v1::DeviceInfo& device = *response.add_devices();
    device.set_backend(backend.info().name);
    device.set_name(backend.info().device);
    device.set_isa(backend.info().isa);
    device.set_memory_bytes(backend.info().memory_bytes);
    device.set_free_bytes(devices.alive(idx) ? backend.FreeBytes().value_or(0) : 0);
    device.set_number(static_cast<uint32_t>(devices.number(idx)));
    device.set_lost(std::string(devices.StatusOf(idx).message()));
  }
  int count_checks_left = kMaxCountChecks;
  for (const store::CollectionStatus& status : store.List()) {
    v1::CollectionInfo& info = *response.add_collections();
    info = ToProto(status, devices);
    if (status.collection == nullptr || !info.live().has_layout()) continue;
    CountOwned(*status.collection, info, count_checks_left);
  }
  return response;
}

}  // namespace maxsim::service
