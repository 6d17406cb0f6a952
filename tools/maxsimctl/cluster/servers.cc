#include "tools/maxsimctl/cluster/servers.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/text.h"
#include "client/slot_message.h"
#include "tools/command_line/terminal.h"
#include "tools/command_line/token_file.h"
#include "tools/maxsimctl/context/collection_view.h"

namespace maxsim::ctl::cluster {
namespace {

using collection::kNumSlots;
using collection::SlotRange;

// The value of LiveInfo.log for a collection whose writes are ordered by a stream.
constexpr char kStreamLog[] = "nats";

// A server answers GetInfo within milliseconds. One that takes longer than this counts as not answering.
constexpr absl::Duration kInfoTimeout = absl::Seconds(5);
constexpr size_t kMaxThreads = 32;

// The interval of gRPC's pings during long calls. If the server's machine is gone, the call then fails within a minute.
// Servers allow a ping every 10 s.
constexpr absl::Duration kKeepaliveTime = absl::Seconds(30);

const v1::CollectionInfo* FindReport(const v1::GetInfoResponse& info, const std::string& name) {
  for (const v1::CollectionInfo& collection : info.collections()) {
    if (collection.name() == name) return &collection;
  }
  return nullptr;
}

// Returns the slots of a report, in which no partition means all slots.
absl::StatusOr<SlotRange> SlotsFrom(bool is_set, const v1::PartitionInfo& slots, const std::string& address) {
  if (!is_set) return SlotRange{};
  if (client::IsSlotRange(slots)) return client::SlotRangeOf(slots);
  return absl::InternalError(Cat("the report about ", address, " is wrong: slots ", slots.first_slot(), " up to ",
                                 slots.end_slot(), ", which are not in 0 .. ", kNumSlots - 1));
}

// Returns about how many bytes a server has of a collection on its disk: vectors, codes and log.
uint64_t BytesOf(const v1::CollectionInfo& info) {
  const uint64_t code_bytes = info.num_tokens() * info.dim() * info.code_planes() / 8;
  return info.token_bytes() + code_bytes + info.live().log_bytes();
}

// Takes the layout of a report, if it is newer than that of the state.
absl::Status NoteLayout(const v1::SlotLayout& layout, ClusterState& state) {
  if (layout.revision() <= state.revision) return absl::OkStatus();
  Owners owners;
  for (const v1::SlotOwner& owner : layout.owners()) {
    const auto slot = [](uint32_t value) { return static_cast<int32_t>(std::min<uint32_t>(value, kNumSlots + 1)); };
    owners.push_back({.group = command_line::WithoutControls(owner.group()),
                      .slots = {slot(owner.slots().first_slot()), slot(owner.slots().end_slot())}});
  }
  if (absl::Status status = CheckOwners(owners); !status.ok()) return status;
  state.revision = layout.revision();
  state.owners = std::move(owners);
  return absl::OkStatus();
}

std::string StateText(const v1::ReplicaInfo& replica, const std::string& left_out) {
  switch (replica.state()) {
    case v1::REPLICA_STATE_READY:
      return "ready";
    case v1::REPLICA_STATE_EJECTED:
      return Cat("ejected: ", replica.error());
    case v1::REPLICA_STATE_LOADING:
      return "loading";
    case v1::REPLICA_STATE_LEFT_OUT:
      return left_out.empty() ? std::string("ready") : Cat("left out: ", left_out);
    default:
      return replica.error().empty() ? std::string("does not answer") : Cat("does not answer: ", replica.error());
  }
}

// Fills in what the router knows of a server.
absl::Status NoteRouterReport(const std::string& name, const v1::ReplicaInfo& report, ReplicaState& replica) {
  std::string left_out;
  const bool can_serve = report.state() == v1::REPLICA_STATE_READY || report.state() == v1::REPLICA_STATE_LEFT_OUT;
  for (const v1::ReplicaCollection& held : report.collections()) {
    if (held.name() != name) continue;
    left_out = held.left_out();
    replica.is_ready = can_serve && left_out.empty();
    replica.sequence = held.sequence();
    replica.lag = held.lag_writes();
    const absl::StatusOr<SlotRange> slots = SlotsFrom(held.has_slots(), held.slots(), replica.address);
    if (!slots.ok()) return slots.status();
    // A generation of 0 means that the server was told to serve the collection, but could not load it.
    if (held.generation() > 0) replica.held_by_router = *slots;
  }
  replica.held = replica.held_by_router;
  replica.state = command_line::WithoutControls(StateText(report, left_out));
  return absl::OkStatus();
}

// Replaces what the router knows by the server's own report, which is newer.
absl::Status NoteOwnReport(const std::string& name, const v1::GetInfoResponse& report, ReplicaState& replica,
                           ClusterState& state) {
  replica.problem = report.loading() ? "is loading its collections" : "";
  replica.held.reset();
  const v1::CollectionInfo* const collection = FindReport(report, name);
  if (collection == nullptr) {
    replica.is_ready = false;
    if (replica.answers() && replica.state == "ready") replica.state = "ready, without the collection";
    return absl::OkStatus();
  }
  if (absl::Status status = NoteLayout(collection->live().layout(), state); !status.ok()) return status;
  if (collection->state() == v1::COLLECTION_STATE_LOADING) {
    replica.problem = "is loading the collection";
    return absl::OkStatus();
  }
  if (collection->state() != v1::COLLECTION_STATE_READY) {
    replica.is_ready = false;
    replica.state = command_line::WithoutControls(Cat("without the collection: ", collection->error()));
    return absl::OkStatus();
  }
  const absl::StatusOr<SlotRange> slots =
      SlotsFrom(collection->has_partition(), collection->partition(), replica.address);
  if (!slots.ok()) return slots.status();
  replica.held = *slots;
  replica.sequence = collection->live().sequence();
  replica.lag = collection->live().lag();
  replica.num_bytes = BytesOf(*collection);
  if (replica.is_ready && replica.held != replica.held_by_router) {
    replica.is_ready = false;
    replica.state = "ready, but the router does not know yet which slots it holds";
  }
  // Such a server misses writes, and cannot get them from the stream.
  if (!collection->live().error().empty()) {
    replica.is_ready = false;
    replica.state = command_line::WithoutControls(Cat("takes no writes: ", collection->live().error()));
  }
  return absl::OkStatus();
}

absl::Status NoCollection(const std::string& name, const v1::GetInfoResponse& router) {
  std::vector<std::string> names;
  for (const v1::CollectionInfo& collection : router.collections()) names.push_back(collection.name());
  return absl::NotFoundError(
      Cat("no collection '", name, "'; the router has ", names.empty() ? "none" : absl::StrJoin(names, ", ")));
}

}  // namespace

absl::StatusOr<ClusterState> StateFrom(const std::string& name, const v1::GetInfoResponse& router,
                                       const std::map<std::string, v1::GetInfoResponse>& servers,
                                       const std::map<std::string, std::string>& problems) {
  if (router.groups().empty()) {
    return absl::FailedPreconditionError(
        "--server: the server is not a router (cluster.groups), so it knows no groups");
  }
  const v1::CollectionInfo* const collection = FindReport(router, name);
  if (collection == nullptr) return NoCollection(name, router);
  ClusterState state;
  if (absl::Status status = NoteLayout(collection->live().layout(), state); !status.ok()) return status;
  state.router_revision = state.revision;
  bool has_stream = collection->live().log() == kStreamLog;
  for (const v1::GroupInfo& group_report : router.groups()) {
    GroupState& group = state.groups.emplace_back(GroupState{.name = group_report.name(), .replicas = {}});
    for (const v1::ReplicaInfo& report : group_report.replicas()) {
      ReplicaState& replica = group.replicas.emplace_back(ReplicaState{.address = report.target()});
      if (absl::Status status = NoteRouterReport(name, report, replica); !status.ok()) return status;
      const auto own = servers.find(replica.address);
      if (own == servers.end()) {
        const auto problem = problems.find(replica.address);
        replica.problem = problem == problems.end() ? "does not answer" : problem->second;
        continue;
      }
      if (absl::Status status = NoteOwnReport(name, own->second, replica, state); !status.ok()) return status;
      const v1::CollectionInfo* const held = FindReport(own->second, name);
      has_stream = has_stream || (held != nullptr && held->live().log() == kStreamLog);
    }
  }
  if (has_stream) return state;
  return absl::FailedPreconditionError(Cat("the writes of collection ", Quote(name),
                                           " are not ordered by a stream (live.log: nats), so its slots cannot move "
                                           "between servers"));
}

absl::StatusOr<ClusterState> Servers::Read(const std::string& name) {
  const absl::StatusOr<client::Client*> router = context_.Connect();
  if (!router.ok()) return router.status();
  const absl::StatusOr<v1::GetInfoResponse> info = (*router)->GetInfo();
  if (!info.ok()) return context_.AddAdvice(info.status());
  std::vector<std::pair<std::string, client::Client*>> asked;
  for (const v1::GroupInfo& group : info->groups()) {
    for (const v1::ReplicaInfo& replica : group.replicas()) {
      const absl::StatusOr<client::Client*> client = At(replica.target());
      if (!client.ok()) return client.status();
      asked.emplace_back(replica.target(), *client);
    }
  }
  std::vector<absl::StatusOr<v1::GetInfoResponse>> answers(asked.size(), absl::UnknownError(""));
  std::atomic<size_t> next{0};
  const auto ask = [&] {
    for (size_t i = next++; i < asked.size(); i = next++) {
      answers[i] = asked[i].second->GetInfo({.timeout = kInfoTimeout, .max_attempts = 2});
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < std::min(asked.size(), kMaxThreads); ++i) threads.emplace_back(ask);
  for (std::thread& thread : threads) thread.join();
  std::map<std::string, v1::GetInfoResponse> reports;
  std::map<std::string, std::string> problems;
  for (size_t i = 0; i < asked.size(); ++i) {
    if (answers[i].ok()) {
      reports[asked[i].first] = *std::move(answers[i]);
    } else {
      problems[asked[i].first] =
          command_line::WithoutControls(Cat("does not answer maxsimctl: ", answers[i].status().message()));
    }
  }
  return StateFrom(name, *info, reports, problems);
}

absl::StatusOr<client::Client*> Servers::At(const std::string& address) {
  std::unique_ptr<client::Client>& client = clients_[address];
  if (client != nullptr) return client.get();
  const absl::StatusOr<std::string> token = group_token_file_.empty()
                                                ? context_.ReadToken()
                                                : command_line::ReadTokenFile(group_token_file_, "--group-token-file");
  if (!token.ok()) return token.status();
  absl::StatusOr<std::unique_ptr<client::Client>> made = context_.MakeClient(address, *token, kKeepaliveTime);
  if (!made.ok()) return made.status();
  client = *std::move(made);
  return client.get();
}

}  // namespace maxsim::ctl::cluster
