// The role of a process: it serves collections (ServingRole), or it routes calls to servers that do (RouterRole). The
// Server owns the ports and the phases from start to shutdown; its role does the rest.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/observability/activity.h"
#include "server/service/api.h"
#include "server/service/document_api_base.h"
#include "server/service/rerank_front.h"

namespace maxsim {

// Thread-safe, except that Start, Drain and destruction must not overlap.
class Role {
 public:
  virtual ~Role() = default;

  // The handlers of the calls. They live as long as the role.
  virtual service::RerankFront& front() = 0;
  virtual service::DocumentApiBase& documents() = 0;
  virtual service::CollectionApi& collections() = 0;

  // Returns what the server says about itself.
  virtual v1::GetInfoResponse Info() const = 0;

  // Makes the role ready to answer calls, which may take minutes. Calls `begin` before each step, with the name of what
  // the step waits for ("collection passages"). If `begin` returns an error, Start ends with that error.
  using Begin = std::function<absl::Status(const std::string& what)>;
  virtual absl::Status Start(const Begin& begin) = 0;

  // Sets the state that decides from now on whether new calls are accepted.
  void SetState(service::ServingState state) {
    front().SetState(state);
    documents().SetState(state);
  }

  // The server's monitor thread calls this every 250 ms. Returns OK, or an error once the role can never answer a call
  // again.
  virtual absl::Status CheckHealth() = 0;

  // Called by the monitor thread. Updates the gauges; returns totals since start.
  virtual ActivityTotals Observe() = 0;

  // Returns OK, or why a load balancer should not send requests for now.
  virtual absl::Status Readiness() const = 0;

  // Returns a text for people about what a ready server lacks (such as a lost device or an unreachable group), with one
  // line for each loss. Returns "" if nothing is lost.
  virtual std::string Losses() const = 0;

  // Reloads every collection. Outcomes are logged.
  virtual void ReloadAll() = 0;

  // Ends the changes of collections that are in progress; their calls fail.
  virtual void StopChanges() = 0;

  // Answers accepted calls until `deadline`. Fails the rest and returns their number.
  virtual int64_t Drain(absl::Time deadline) = 0;
};

}  // namespace maxsim
