// What a process does: it serves collections (ServingRole), or it routes calls to servers that do (RouterRole). The
// Server owns the ports and the phases of its life, and has its role do the rest.
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

// The class is thread-safe but for Start, Drain and destruction, which follow each other.
class Role {
 public:
  virtual ~Role() = default;

  // The calls, as long as the role lives.
  virtual service::RerankFront& front() = 0;
  virtual service::DocumentApiBase& documents() = 0;
  virtual service::CollectionApi& collections() = 0;

  // Returns what the server says about itself.
  virtual v1::GetInfoResponse Info() const = 0;

  // Makes the role ready for calls, which may take long. Before each thing that is waited for, `begin` is called with
  // its name ("collection passages"), and Start ends with the status that it returns where that is not OK.
  using Begin = std::function<absl::Status(const std::string& what)>;
  virtual absl::Status Start(const Begin& begin) = 0;

  // Says what new calls are told from now on.
  void SetState(service::ServingState state) {
    front().SetState(state);
    documents().SetState(state);
  }

  // Is called every 250 ms by one thread. Returns why no call can be answered any more, and never will be; OK
  // otherwise.
  virtual absl::Status CheckHealth() = 0;

  // Is called every few seconds by the same thread: brings the gauges up to date, and returns what was done so far.
  virtual ActivityTotals Observe() = 0;

  // Returns why a load balancer should send requests elsewhere for now; OK otherwise.
  virtual absl::Status Readiness() const = 0;

  // Returns lines about what a server that is ready misses, or "".
  virtual std::string Losses() const = 0;

  // Reloads every collection. Outcomes are logged.
  virtual void ReloadAll() = 0;

  // Ends changes of collections that are under way; their calls fail.
  virtual void StopChanges() = 0;

  // Answers what was accepted, until `deadline`, then fails the rest. Returns how many calls that were.
  virtual int64_t Drain(absl::Time deadline) = 0;
};

}  // namespace maxsim
