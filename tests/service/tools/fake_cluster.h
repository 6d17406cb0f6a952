// A fake router and fake servers of its groups, over real gRPC. They report which slots they hold, and carry out the
// calls that move slots.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/mutex.h"
#include "collection/slots.h"
#include "gtest/gtest.h"
#include "tests/support/fake_server.h"

namespace maxsim::ctl {

// A cluster with the groups g0, g1, ... of two servers each. The first `num_owners` groups own equal ranges of the
// slots of the collection "notes", with 1 KiB per slot. Thread-safe.
class FakeCluster {
 public:
  FakeCluster(int num_groups, int num_owners) {
    for (int i = 0; i < num_groups; ++i) {
      for (const char suffix : {'a', 'b'}) {
        Member& member = *members_.emplace_back(std::make_unique<Member>());
        member.group = absl::StrCat("g", i);
        member.name = member.group + suffix;
        if (i < num_owners) member.held = collection::PartitionOf(i, num_owners);
        Serve(member);
      }
    }
    router.on_info = [this](v1::GetInfoResponse& info) {
      const MutexLock lock(&mutex_);
      Describe(info);
      return grpc::Status::OK;
    };
  }

  // Returns the address of the server of this name, such as "g0a".
  std::string AddressOf(const std::string& name) const { return Find(name).server.target(); }
  test::FakeServer& ServerOf(const std::string& name) { return Find(name).server; }

  // Returns the servers that hold slots: "g0a 0-2047, g0b 0-2047, ...".
  std::string Held() const {
    const MutexLock lock(&mutex_);
    std::vector<std::string> held;
    for (const auto& member : members_) {
      if (!member->held.has_value()) continue;
      held.push_back(absl::StrCat(member->name, " ", collection::FormatSlotRange(*member->held)));
    }
    return absl::StrJoin(held, ", ");
  }

  // Returns the layout as "3: g0 0-2047, g1 2048-4095", or "none".
  std::string Layout() const {
    const MutexLock lock(&mutex_);
    if (layout_.revision() == 0) return "none";
    std::vector<std::string> owners;
    for (const v1::SlotOwner& owner : layout_.owners()) {
      const auto first = owner.slots().first_slot(), end = owner.slots().end_slot();
      owners.push_back(absl::StrCat(owner.group(), " ", first, "-", end - 1));
    }
    return absl::StrCat(layout_.revision(), ": ", absl::StrJoin(owners, ", "));
  }

  void SetLayout(const v1::SlotLayout& layout) {
    const MutexLock lock(&mutex_);
    layout_ = layout;
  }

  // Returns the calls that changed something, such as "bootstrap g1a 1365-4095", "unload g2a", "layout 1".
  std::vector<std::string> Calls() const {
    const MutexLock lock(&mutex_);
    return calls_;
  }

  // Takes the server's copy away, as if it were a new machine.
  void Empty(const std::string& name) {
    const MutexLock lock(&mutex_);
    Find(name).held.reset();
  }

  // The next call of this kind, "bootstrap g1a" or "layout", fails with this status.
  void FailOnce(const std::string& call, const grpc::Status& status) {
    const MutexLock lock(&mutex_);
    failures_[call] = status;
  }

  // From now on, the router keeps its layout, even if the servers report a newer one.
  void FreezeRouter() {
    const MutexLock lock(&mutex_);
    router_layout_ = layout_;
  }

  test::FakeServer router;

 private:
  struct Member {
    std::string group, name;
    std::optional<collection::SlotRange> held;
    test::FakeServer server;
  };

  void Serve(Member& member) {
    member.server.on_info = [this, &member](v1::GetInfoResponse& info) {
      const MutexLock lock(&mutex_);
      if (member.held.has_value()) DescribeCollection(*member.held, layout_, *info.add_collections());
      return grpc::Status::OK;
    };
    member.server.on_bootstrap = [this, &member](const v1::BootstrapCollectionRequest& request, auto& response) {
      const MutexLock lock(&mutex_);
      EXPECT_EQ(request.name(), "notes");
      const std::string call = "bootstrap " + member.name;
      if (const grpc::Status status = Outcome(call); !status.ok()) return status;
      const collection::SlotRange slots = {static_cast<int32_t>(request.slots().first_slot()),
                                           static_cast<int32_t>(request.slots().end_slot())};
      calls_.push_back(absl::StrCat(call, " ", collection::FormatSlotRange(slots)));
      for (const std::string& source : request.sources()) {
        response.set_fetched_bytes(response.fetched_bytes() + BytesAt(source));
      }
      member.held = slots;
      return grpc::Status::OK;
    };
    member.server.on_unload = [this, &member](const v1::UnloadCollectionRequest& request) {
      const MutexLock lock(&mutex_);
      EXPECT_EQ(request.name(), "notes");
      calls_.push_back("unload " + member.name);
      member.held.reset();
      return grpc::Status::OK;
    };
    member.server.on_set_layout = [this](const v1::SetLayoutRequest& request, v1::SetLayoutResponse& response) {
      const MutexLock lock(&mutex_);
      if (const grpc::Status status = Outcome("layout"); !status.ok()) return status;
      if (request.expected_revision() != layout_.revision()) {
        return grpc::Status(grpc::StatusCode::ABORTED, absl::StrCat("the revision is ", layout_.revision()));
      }
      layout_.set_revision(layout_.revision() + 1);
      *layout_.mutable_owners() = request.owners();
      calls_.push_back(absl::StrCat("layout ", layout_.revision()));
      *response.mutable_layout() = layout_;
      return grpc::Status::OK;
    };
  }

  grpc::Status Outcome(const std::string& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = failures_.find(call);
    if (found == failures_.end()) return grpc::Status::OK;
    const grpc::Status status = found->second;
    failures_.erase(found);
    return status;
  }

  uint64_t BytesAt(const std::string& address) const {
    for (const auto& member : members_) {
      if (member->server.target() != address) continue;
      EXPECT_TRUE(member->held.has_value()) << member->name << " is no source";
      return 1024 * static_cast<uint64_t>(member->held.value_or(collection::SlotRange{}).size());
    }
    ADD_FAILURE() << address << " is no server";
    return 0;
  }

  static void DescribeCollection(const collection::SlotRange& held, const v1::SlotLayout& layout,
                                 v1::CollectionInfo& info) {
    info.set_name("notes");
    info.set_state(v1::COLLECTION_STATE_READY);
    info.set_generation(1);
    info.set_token_bytes(1024 * static_cast<uint64_t>(held.size()));
    info.mutable_partition()->set_first_slot(static_cast<uint32_t>(held.first));
    info.mutable_partition()->set_end_slot(static_cast<uint32_t>(held.end));
    info.mutable_live()->set_log("nats");
    info.mutable_live()->set_sequence(1402);
    if (layout.revision() > 0) *info.mutable_live()->mutable_layout() = layout;
  }

  // Makes the router's report.
  void Describe(v1::GetInfoResponse& info) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const v1::SlotLayout& layout = router_layout_.has_value() ? *router_layout_ : layout_;
    DescribeCollection({}, layout, *info.add_collections());
    info.mutable_collections(0)->clear_partition();
    for (const auto& member : members_) {
      if (info.groups().empty() || info.groups().rbegin()->name() != member->group) {
        info.add_groups()->set_name(member->group);
      }
      v1::ReplicaInfo& replica = *info.mutable_groups(info.groups_size() - 1)->add_replicas();
      replica.set_target(member->server.target());
      replica.set_state(v1::REPLICA_STATE_READY);
      if (!member->held.has_value()) continue;
      v1::ReplicaCollection& held = *replica.add_collections();
      held.set_name("notes");
      held.set_generation(1);
      held.set_sequence(1400);
      held.set_lag_writes(2);
      held.mutable_slots()->set_first_slot(static_cast<uint32_t>(member->held->first));
      held.mutable_slots()->set_end_slot(static_cast<uint32_t>(member->held->end));
    }
  }

  Member& Find(const std::string& name) const {
    for (const auto& member : members_) {
      if (member->name == name) return *member;
    }
    ADD_FAILURE() << "no server " << name;
    return *members_[0];
  }

  mutable Mutex mutex_;  // guards what members_ hold, too
  v1::SlotLayout layout_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::SlotLayout> router_layout_ ABSL_GUARDED_BY(mutex_);  // that the router goes on with
  std::vector<std::string> calls_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, grpc::Status> failures_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Member>> members_;  // destroyed first: their handlers use the rest
};

}  // namespace maxsim::ctl
