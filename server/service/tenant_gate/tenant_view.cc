#include "server/service/tenant_gate/tenant_view.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace maxsim::service {
namespace {

constexpr char kPartlyUnavailable[] = "some documents cannot be reached at the moment";
constexpr char kWritesDisturbed[] = "some servers of the cluster cannot apply writes at the moment";

// Replaces the errors of a router's collection by texts without names. A collection that is READY has an error only
// about a replica that the router does without. This error is removed, because it makes no difference to a tenant.
void HideErrors(v1::CollectionInfo& info) {
  const bool is_ready = info.state() == v1::COLLECTION_STATE_READY;
  if (!info.error().empty()) info.set_error(is_ready ? "" : kPartlyUnavailable);
  if (!info.live().error().empty()) info.mutable_live()->set_error(kWritesDisturbed);
}

// Returns what a tenant with a filter may know about a collection. The fields are copied one by one, so that a new
// field of the message stays hidden until it is added here.
v1::CollectionInfo WithoutCounts(const v1::CollectionInfo& info) {
  v1::CollectionInfo shown;
  shown.set_name(info.name());
  shown.set_state(info.state());
  shown.set_generation(info.generation());
  shown.set_dim(info.dim());
  shown.set_storage(info.storage());
  shown.set_id_type(info.id_type());
  shown.set_has_payloads(info.has_payloads());
  shown.set_code_planes(info.code_planes());
  shown.set_rotation_seed(info.rotation_seed());
  *shown.mutable_fields() = info.fields();
  if (info.has_encoder()) *shown.mutable_encoder() = info.encoder();
  if (info.has_live()) shown.mutable_live()->set_log(info.live().log());
  return shown;
}

}  // namespace

void HideFromTenant(const Caller& caller, ErrorSource source, std::vector<v1::CollectionInfo>& collections) {
  if (!caller.is_known()) return collections.clear();
  const Tenant* const tenant = caller.tenant();
  if (tenant == nullptr) return;
  const auto is_hidden = [tenant](const v1::CollectionInfo& info) { return !tenant->MayUse(info.name()); };
  collections.erase(std::remove_if(collections.begin(), collections.end(), is_hidden), collections.end());
  for (v1::CollectionInfo& info : collections) {
    if (info.live().has_layout()) info.mutable_live()->clear_layout();
    if (source == ErrorSource::kRouter) HideErrors(info);
  }
  if (tenant->filter() == nullptr) return;
  for (v1::CollectionInfo& info : collections) info = WithoutCounts(info);
}

void HideFromTenant(const Caller& caller, ErrorSource source, v1::GetInfoResponse& info) {
  if (caller.is_known() && caller.tenant() == nullptr) return;
  std::vector<v1::CollectionInfo> collections(std::make_move_iterator(info.mutable_collections()->begin()),
                                              std::make_move_iterator(info.mutable_collections()->end()));
  HideFromTenant(caller, source, collections);
  info.clear_collections();
  for (v1::CollectionInfo& one : collections) *info.add_collections() = std::move(one);
  info.clear_devices();
  info.clear_groups();
  info.clear_zone();
}

}  // namespace maxsim::service
