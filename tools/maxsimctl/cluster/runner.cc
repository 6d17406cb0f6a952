#include "tools/maxsimctl/cluster/runner.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "base/units.h"
#include "client/slot_message.h"
#include "tools/command_line/terminal.h"
#include "tools/maxsimctl/cluster/plan_text.h"

namespace maxsim::ctl::cluster {
namespace {

// A limit for calls that would never return. It is far above the three hours that 1 TB takes at 100 MB/s.
constexpr absl::Duration kCallTimeout = absl::Hours(24);
// A line about steps that still run comes this often.
constexpr absl::Duration kSayEvery = absl::Seconds(30);
// While steps run, new steps are planned at this interval, because the router may have noticed more by then.
constexpr absl::Duration kPlanEvery = absl::Seconds(3);

// Returns whether a step that failed like this may succeed a little later.
bool MayPass(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable || status.code() == absl::StatusCode::kResourceExhausted;
}

absl::StatusOr<uint64_t> CallBootstrap(client::Client& client, const std::string& collection, const Bootstrap& call,
                                       const std::string& residency) {
  v1::BootstrapCollectionRequest request;
  request.set_name(collection);
  for (const std::string& source : call.sources) request.add_sources(source);
  *request.mutable_slots() = client::SlotMessageOf(call.slots);
  request.set_residency(residency);
  const absl::StatusOr<v1::BootstrapCollectionResponse> response =
      client.BootstrapCollection(request, {.timeout = kCallTimeout});
  if (!response.ok()) return response.status();
  return response->fetched_bytes();
}

absl::StatusOr<uint64_t> CallUnload(client::Client& client, const std::string& collection) {
  v1::UnloadCollectionRequest request;
  request.set_name(collection);
  const absl::StatusOr<v1::UnloadCollectionResponse> response = client.UnloadCollection(request);
  // Another run may have unloaded it.
  if (!response.ok() && response.status().code() != absl::StatusCode::kNotFound) return response.status();
  return uint64_t{0};
}

// Returns the Bootstrap of a step that makes such a call, or null.
const Bootstrap* CallOf(const Step& step) {
  if (const auto* trim = std::get_if<Trim>(&step)) return &trim->call;
  return std::get_if<Bootstrap>(&step);
}

bool IsCall(const Step& step) { return CallOf(step) != nullptr || std::holds_alternative<Unload>(step); }

// Returns the server that a step changes.
const std::string& AddressOf(const Step& step) {
  const Bootstrap* const call = CallOf(step);
  return call != nullptr ? call->address : std::get<Unload>(step).address;
}

std::string Took(absl::Time began) {
  return Cat(command_line::Fixed(absl::ToDoubleSeconds(MonotonicNow() - began), 1), " s");
}

}  // namespace

absl::StatusOr<RunReport> Runner::Move(const Owners& wanted) {
  while (true) {
    absl::StatusOr<ClusterState> state = ReadPatiently();
    absl::Status status = state.ok() ? CheckLayout(*state, wanted) : state.status();
    absl::StatusOr<std::vector<Step>> steps =
        status.ok() ? NextSteps(*state, wanted, options_.plan, progress_, RunningSteps()) : status;
    if (steps.ok() && steps->empty() && running_.empty()) {
      report_.revision = state->revision;
      return report_;
    }
    status = steps.status();
    for (size_t i = 0; status.ok() && i < steps->size(); ++i) {
      const Step& step = (*steps)[i];
      status = IsCall(step) ? Begin(step) : DoAlone(step, *state, wanted);
    }
    if (status.ok() && !running_.empty()) status = WaitForOne(kPlanEvery);
    if (!status.ok()) {
      if (!running_.empty()) Say(Cat("failed: ", status.message(), "; waiting for the steps that run"));
      JoinAll();
      return status;
    }
  }
}

absl::StatusOr<RunReport> Runner::Replace(const Bootstrap& step) {
  while (calls_.empty()) {  // until the call has succeeded
    absl::Status status = Begin(step);
    if (status.ok()) status = WaitForOne(absl::InfiniteDuration());
    if (!status.ok()) return status;
  }
  const Step wait = WaitForReplica{.group = step.group, .address = step.address};
  while (true) {
    const absl::StatusOr<ClusterState> state = ReadPatiently();
    if (!state.ok()) return state.status();
    report_.revision = state->revision;
    const std::string missing = WhatIsMissing(wait, *state, {});
    if (missing.empty()) return report_;
    if (absl::Status status = WaitALittle(wait, missing); !status.ok()) return status;
  }
}

absl::StatusOr<ClusterState> Runner::ReadPatiently() {
  while (true) {
    absl::StatusOr<ClusterState> state = servers_.Read(collection_);
    if (state.ok()) {
      failures_.erase(context_.options.server);
      // Servers report a new layout a moment after it was set.
      if (state->revision < set_revision_) {
        state->revision = set_revision_;
        state->owners = set_owners_;
      }
      return state;
    }
    absl::Status status = NoteFailure(context_.options.server, state.status(), MayPass(state.status()));
    if (!status.ok()) return status;
  }
}

absl::Status Runner::CheckLayout(const ClusterState& state, const Owners& wanted) {
  const absl::StatusOr<Owners> owners = CurrentOwners(state);
  if (!owners.ok()) return owners.status();
  if (!first_owners_.has_value()) first_owners_ = *owners;
  if (*owners == *first_owners_ || *owners == wanted) return absl::OkStatus();
  return absl::AbortedError(Cat("another command has changed the layout meanwhile: revision ", state.revision, " is ",
                                DescribeOwners(*owners)));
}

absl::Status Runner::Begin(const Step& step) {
  const absl::StatusOr<client::Client*> client = servers_.At(AddressOf(step));
  if (!client.ok()) return client.status();
  Running& running = *running_.emplace_back(
      std::make_unique<Running>(Running{.step = step, .number = ++report_.num_steps, .began = MonotonicNow()}));
  Say(Cat("step ", running.number, ": ", DescribeStep(step)));
  running.thread = std::thread([this, &running, to = *client] {
    const Bootstrap* const call = CallOf(running.step);
    absl::StatusOr<uint64_t> outcome =
        call != nullptr ? CallBootstrap(*to, collection_, *call, options_.residency) : CallUnload(*to, collection_);
    const MutexLock lock(&mutex_);
    running.outcome = std::move(outcome);
    running.has_ended = true;
    ended_.NotifyAll();
  });
  return absl::OkStatus();
}

absl::Status Runner::DoAlone(const Step& step, const ClusterState& state, const Owners& wanted) {
  if (const auto* layout = std::get_if<SetLayout>(&step)) return DoSetLayout(*layout);
  const std::string missing = WhatIsMissing(step, state, wanted);
  if (!missing.empty()) return WaitALittle(step, missing);
  if (const auto* wait = std::get_if<WaitForRouters>(&step)) {
    Say(Cat("step ", ++report_.num_steps, ": ", DescribeStep(step)));
    absl::SleepFor(wait->grace);
    progress_ = {.settled_revision = wait->revision, .is_ready_for_layout = wait->is_before_layout};
  }
  waited_for_.reset();
  return absl::OkStatus();
}

absl::Status Runner::DoSetLayout(const SetLayout& step) {
  const absl::StatusOr<client::Client*> client = servers_.At(step.address);
  if (!client.ok()) return client.status();
  Say(Cat("step ", ++report_.num_steps, ": ", DescribeStep(step)));
  v1::SetLayoutRequest request;
  request.set_name(collection_);
  request.set_expected_revision(step.expected_revision);
  for (const Owner& owner : step.owners) {
    v1::SlotOwner& added = *request.add_owners();
    added.set_group(owner.group);
    *added.mutable_slots() = client::SlotMessageOf(owner.slots);
  }
  const absl::StatusOr<v1::SetLayoutResponse> response = (*client)->SetLayout(request);
  progress_.is_ready_for_layout = false;
  if (!response.ok()) {
    // ABORTED may mean that an earlier attempt set the layout and its answer was lost. If so, the next state shows the
    // layout.
    const bool is_old = response.status().code() == absl::StatusCode::kAborted;
    return NoteFailure(step.address, Prefix(Cat(step.address, ": "), response.status()),
                       is_old || MayPass(response.status()));
  }
  if (response->layout().revision() <= step.expected_revision) {
    return absl::InternalError(Cat(step.address, ": its answer is wrong: revision ", response->layout().revision(),
                                   " of a layout that follows revision ", step.expected_revision));
  }
  failures_.erase(step.address);
  set_revision_ = response->layout().revision();
  set_owners_ = step.owners;
  return absl::OkStatus();
}

absl::Status Runner::WaitALittle(const Step& step, const std::string& missing) {
  if (waited_for_ != step) {
    waited_for_ = step;
    waited_since_ = MonotonicNow();
    Say(Cat("waiting: ", missing));
  }
  const absl::Duration waited = MonotonicNow() - waited_since_;
  if (waited > options_.patience) {
    return absl::DeadlineExceededError(Cat("waited ", DescribeDuration(waited), " in vain: ", missing));
  }
  absl::SleepFor(options_.poll_interval);
  return absl::OkStatus();
}

absl::Status Runner::WaitForOne(absl::Duration at_most) {
  std::vector<std::unique_ptr<Running>> ended;
  {
    MutexLock lock(&mutex_);
    const auto has_ended = [](const std::unique_ptr<Running>& one) { return one->has_ended; };
    const absl::Time until = MonotonicNow() + at_most;
    while (std::none_of(running_.begin(), running_.end(), has_ended) && MonotonicNow() < until) {
      ended_.WaitFor(lock, absl::ToChronoMilliseconds(options_.poll_interval));
      if (MonotonicNow() - said_ < kSayEvery) continue;
      said_ = MonotonicNow();
      for (const std::unique_ptr<Running>& one : running_) {
        Say(Cat("step ", one->number, ": ", AddressOf(one->step), " is not done after ", Took(one->began)));
      }
    }
    const auto first = std::stable_partition(running_.begin(), running_.end(), std::not_fn(has_ended));
    std::move(first, running_.end(), std::back_inserter(ended));
    running_.erase(first, running_.end());
  }
  absl::Status failed;
  for (const std::unique_ptr<Running>& one : ended) {
    one->thread.join();
    failed.Update(End(*one));
  }
  return failed;
}

absl::Status Runner::End(Running& running) {
  const std::string& address = AddressOf(running.step);
  const Bootstrap* const call = CallOf(running.step);
  // The server's slots may have changed even if the call failed, so the routers must be waited for again.
  if (std::holds_alternative<Bootstrap>(running.step)) progress_.is_ready_for_layout = false;
  if (!running.outcome.ok()) {
    return NoteFailure(address, Prefix(Cat(address, ": "), running.outcome.status()),
                       MayPass(running.outcome.status()));
  }
  failures_.erase(address);
  report_.fetched_bytes += *running.outcome;
  Say(Cat(
      "step ", running.number, " is done: ", address, ", ",
      call == nullptr ? std::string("unloaded") : Cat(FormatBytes(static_cast<int64_t>(*running.outcome)), " fetched"),
      " in ", Took(running.began)));
  return call == nullptr ? absl::OkStatus() : NoteCall(*call);
}

// Counts a failure of the server `what`. Returns `status` if it may not pass, or at the kMaxFailures-th failure.
// Otherwise sleeps for options.retry_pause and returns OK: the caller should try again.
absl::Status Runner::NoteFailure(const std::string& what, const absl::Status& status, bool may_pass) {
  if (!may_pass || ++failures_[what] >= kMaxFailures) return status;
  Say(Cat("failed: ", status.message(), "; trying again"));
  absl::SleepFor(options_.retry_pause);
  return absl::OkStatus();
}

// Counts the calls that gave a server these slots. Returns INTERNAL at the kMaxFailures-th: the call succeeds each
// time, but the server does not report that it holds the slots.
absl::Status Runner::NoteCall(const Bootstrap& call) {
  const std::string slots = collection::FormatSlotRange(call.slots);
  if (++calls_[Cat(call.address, " ", slots)] < kMaxFailures) return absl::OkStatus();
  return absl::InternalError(Cat(call.address, ": its answers are wrong: it was bootstrapped with slots ", slots, " ",
                                 kMaxFailures, " times, and does not report that it holds them"));
}

std::vector<Step> Runner::RunningSteps() const {
  std::vector<Step> steps;
  steps.reserve(running_.size());
  for (const std::unique_ptr<Running>& one : running_) steps.push_back(one->step);
  return steps;
}

void Runner::JoinAll() {
  for (const std::unique_ptr<Running>& one : running_) {
    if (one->thread.joinable()) one->thread.join();
  }
  running_.clear();
}

void Runner::Say(const std::string& line) const {
  context_.err() << command_line::WithoutControls(line) << '\n' << std::flush;
}

}  // namespace maxsim::ctl::cluster
