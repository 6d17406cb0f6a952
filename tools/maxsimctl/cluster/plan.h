// Plans how the slots of a collection move from one layout to another while the collection is written and searched.
//
// The plan never stops a write or a search, because a server may hold more slots than its group answers for:
//   1. If the collection has no layout, sets one that says what the groups hold anyway.
//   2. Bootstraps the servers of each group, one at a time, until each holds both the slots for which the group answers
//      now and those for which it will answer. The servers still answer as before.
//   3. Sets the new layout. Routers may notice it at different moments, because old and new owners hold the slots.
//   4. Trims the servers, one of a group at a time, to the slots of the new layout, and unloads the collection from
//      servers whose groups have no slots any more.
// Before steps 2, 3 and 4 it waits until the routers have noticed what was done.
//
// NextSteps derives the steps from the state of the cluster alone, after each step anew. So a run that begins after
// another one was interrupted, at whatever point, goes on there. All functions are pure: no network, no clock.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/maxsimctl/cluster/cluster_state.h"

namespace maxsim::ctl::cluster {

// At most this many servers fetch from one source at the same time. More would only slow each other down. Two, so that
// the servers of two groups can fetch from the same source without waiting.
inline constexpr int kMaxReadersPerSource = 2;

// Makes the server at `address` hold exactly `slots`. The server fetches them from `sources`.
struct Bootstrap {
  std::string group;
  std::string address;
  collection::SlotRange slots;
  std::vector<std::string> sources = {};  // addresses
  uint64_t num_bytes = 0;                 // that the sources hold and will send, about

  friend bool operator==(const Bootstrap&, const Bootstrap&) = default;
};

// Makes the server hold fewer slots, by the same call as Bootstrap. Comes only after the routers use the new layout.
struct Trim {
  Bootstrap call;

  friend bool operator==(const Trim&, const Trim&) = default;
};

// Unloads the collection from a server whose group answers for no slots. Its files stay.
struct Unload {
  std::string group;
  std::string address;

  friend bool operator==(const Unload&, const Unload&) = default;
};

// Sets the layout by a call to the server at `address`.
struct SetLayout {
  std::string address;
  uint64_t expected_revision = 0;
  Owners owners;

  friend bool operator==(const SetLayout&, const SetLayout&) = default;
};

// Waits until the router uses at least this revision of the layout and, if `is_before_layout`, knows that the servers
// hold the slots of the wanted layout. Then waits for `grace`, so that other routers notice it too.
struct WaitForRouters {
  uint64_t revision = 0;
  absl::Duration grace;
  bool is_before_layout = false;

  friend bool operator==(const WaitForRouters&, const WaitForRouters&) = default;
};

// Waits until the router sends requests to the server at `address`, so that another server of its group may be changed.
struct WaitForReplica {
  std::string group;
  std::string address;

  friend bool operator==(const WaitForReplica&, const WaitForReplica&) = default;
};

using Step = std::variant<Bootstrap, Trim, Unload, SetLayout, WaitForRouters, WaitForReplica>;

struct PlanOptions {
  absl::Duration grace = absl::Seconds(10);  // ten times the interval at which routers poll by default
  // Allows a step to change a server even if it is the only one of its group that answers for the group's slots.
  bool allow_gaps = false;
};

// The states of the cluster that this run has waited for. Servers do not report these states, so another run waits
// again.
struct Progress {
  uint64_t settled_revision = 0;     // the routers use this revision of the layout, or a later one
  bool is_ready_for_layout = false;  // the routers know that the servers hold the slots of the wanted layout
};

// Returns the steps that can begin now, at the same time. `running` are steps that have begun and not ended: Bootstrap,
// Trim and Unload. An empty result means that all possible steps are running. If `running` is empty as well, the move
// is complete: the wanted layout is in force, and every server that answers holds exactly its slots.
//
// A step other than Bootstrap, Trim and Unload comes alone, and only when nothing is running. Servers that do not
// answer get no steps. At most one server of a group is worked on at a time. Unless options.allow_gaps, a server that
// answers for its group's slots is worked on only while another one of its group does so too.
//
// INVALID_ARGUMENT if `wanted` names a group that the cluster does not have. FAILED_PRECONDITION if no server of a
// group in `wanted` answers, if the only server that answers for its group would have to be changed, if no server that
// answers holds a slot that another one needs, and for the reasons of CurrentOwners.
absl::StatusOr<std::vector<Step>> NextSteps(const ClusterState& state, const Owners& wanted, const PlanOptions& options,
                                            const Progress& progress, const std::vector<Step>& running);

// A step of a whole plan. Steps of one round run at the same time; a round begins when the previous one has ended.
struct PlannedStep {
  int round = 0;
  Step step;
};

// Returns all steps from `state` to the wanted layout, assuming that every step succeeds and that no server comes or
// goes. Returns the first error of NextSteps on the way, so that a run can be refused before it begins.
absl::StatusOr<std::vector<PlannedStep>> MakePlan(const ClusterState& state, const Owners& wanted,
                                                  const PlanOptions& options);

// Returns what a step still waits for, such as "the router uses revision 2". The grace period does not count. Returns
// "" if the step waits for nothing else.
std::string WhatIsMissing(const Step& step, const ClusterState& state, const Owners& wanted);

// Returns the Bootstrap that gives the server at `address` the slots of its group, even if it holds them already.
// INVALID_ARGUMENT if no group has the address. FAILED_PRECONDITION if the group answers for no slots, and for the
// reasons of NextSteps.
absl::StatusOr<Bootstrap> PlanReplacement(const ClusterState& state, const std::string& address,
                                          const PlanOptions& options);

}  // namespace maxsim::ctl::cluster
