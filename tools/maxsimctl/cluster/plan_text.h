// Shows layouts and steps of plans as text and as JSON, and estimates how long a plan takes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tools/maxsimctl/cluster/plan.h"
#include "tools/maxsimctl/context/context.h"

namespace maxsim::ctl::cluster {

// Returns "g0 0-1364, g1 1365-4095". The numbers are the first and the last slot.
std::string DescribeOwners(const Owners& owners);

// Returns one line, such as "bootstrap 10.0.0.2:7070 (g1) with slots 1365-4095 from 10.0.0.1:7070, about 1.20 GiB".
std::string DescribeStep(const Step& step);

// Returns the bytes that a step moves between servers, about.
uint64_t BytesToMove(const Step& step);

// Returns how long a plan takes: the sum over its rounds of the longest step, grace periods included. Assumes that each
// server receives `bytes_per_second`, which is more than 0.
absl::Duration EstimateDuration(const std::vector<PlannedStep>& plan, double bytes_per_second);

// Returns "1 h 20 min", "35 min", or "40 s".
std::string DescribeDuration(absl::Duration duration);

Json OwnersJson(const Owners& owners);

// Prints a plan without carrying it out, as text or as JSON. `wanted` is the layout at its end.
void PrintPlan(const std::string& name, const ClusterState& state, const Owners& wanted,
               const std::vector<PlannedStep>& plan, double bytes_per_second, const Context& context);

}  // namespace maxsim::ctl::cluster
