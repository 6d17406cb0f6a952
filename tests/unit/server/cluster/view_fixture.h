// Makes groups and views of a cluster that has no servers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/slot_message.h"
#include "server/cluster/groups/group.h"
#include "server/cluster/groups/view.h"
#include "server/cluster/observed/slot_layout.h"

namespace maxsim::cluster {

// Returns what a server reports about its part of a collection.
inline v1::CollectionInfo InfoOf(const std::string& name, uint64_t generation, collection::SlotRange slots,
                                 uint64_t num_documents = 10) {
  v1::CollectionInfo info;
  info.set_name(name);
  info.set_state(v1::COLLECTION_STATE_READY);
  info.set_generation(generation);
  info.set_dim(8);
  info.set_storage(v1::DATA_TYPE_F16);
  info.set_id_type(v1::ID_TYPE_STRING);
  info.set_num_documents(num_documents);
  if (!slots.is_whole()) {
    info.mutable_partition()->set_first_slot(static_cast<uint32_t>(slots.first));
    info.mutable_partition()->set_end_slot(static_cast<uint32_t>(slots.end));
  }
  return info;
}

// Returns a layout with these owners, in the order of their slots.
inline v1::SlotLayout LayoutOf(uint64_t revision,
                               const std::vector<std::pair<std::string, collection::SlotRange>>& owners) {
  v1::SlotLayout layout;
  layout.set_revision(revision);
  for (const auto& [group, slots] : owners) {
    v1::SlotOwner& owner = *layout.add_owners();
    owner.set_group(group);
    *owner.mutable_slots() = client::SlotMessageOf(slots);
  }
  return layout;
}

// Returns the report of a server that holds the slots `held` of the live collection "c". If the revision of `layout` is
// 0, the server reports no layout.
inline v1::CollectionInfo LiveInfoOf(collection::SlotRange held, const v1::SlotLayout& layout,
                                     uint64_t num_documents = 10) {
  v1::CollectionInfo info = InfoOf("c", 1, held, num_documents);
  info.mutable_live()->set_log(kStreamLog);
  if (layout.revision() > 0) *info.mutable_live()->mutable_layout() = layout;
  return info;
}

// Returns a replica with this address, at which no server listens.
inline std::shared_ptr<Replica> MakeReplica(const std::string& target) {
  client::ClientOptions options;
  options.target = target;
  return *Replica::Create(options);
}

inline void Say(Replica& replica, std::vector<v1::CollectionInfo> collections, bool loading = false) {
  auto info = std::make_shared<v1::GetInfoResponse>();
  info->set_loading(loading);
  for (v1::CollectionInfo& collection : collections) *info->add_collections() = std::move(collection);
  replica.SetInfo(std::move(info));
}

// Makes a replica report this zone, beside what it last reported.
inline void SayZone(Replica& replica, const std::string& zone) {
  const std::shared_ptr<const v1::GetInfoResponse> before = replica.info();
  auto info =
      before == nullptr ? std::make_shared<v1::GetInfoResponse>() : std::make_shared<v1::GetInfoResponse>(*before);
  info->set_zone(zone);
  replica.SetInfo(std::move(info));
}

// Returns `count` groups "g0", "g1", ... Each has one replica, which holds the group's partition of collection "c".
inline std::vector<std::shared_ptr<Group>> MakeGroups(int count, uint64_t generation = 1) {
  std::vector<std::shared_ptr<Group>> groups;
  for (int i = 0; i < count; ++i) {
    auto group = std::make_shared<Group>(absl::StrCat("g", i), 100);
    std::shared_ptr<Replica> replica = MakeReplica(absl::StrCat("localhost:", 1 + i));
    Say(*replica, {InfoOf("c", generation, collection::PartitionOf(i, count))});
    group->SetReplicas({std::move(replica)});
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace maxsim::cluster
