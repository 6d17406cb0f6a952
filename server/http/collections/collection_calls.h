// Answers the calls that create, compact and copy collections. It is internal to server/http.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/http/collections/collection_path.h"
#include "server/http/transport/call_end.h"
#include "server/http/transport/transport.h"
#include "server/service/api.h"
#include "server/service/call/worker.h"

namespace maxsim::http {

// Return the call's name in the metrics and in traces.
const char* MethodOf(CollectionCall call);
std::string_view SpanNameOf(CollectionCall call);

// Changes run on the worker, where those of one collection run one after another, gRPC's among them. A change goes on
// when its client goes away, and is not bound by http.request_timeout: it may take minutes, and proxies give up sooner.
// A server that stops ends it (Role::StopChanges).
// Thread-safe. It must outlive its calls, and its constructor's arguments must outlive it.
class CollectionCalls {
 public:
  // `accepts_changes` returns OK, or why no change is accepted now.
  CollectionCalls(service::CollectionApi* collections, service::Worker* worker,
                  std::function<absl::Status()> accepts_changes)
      : collections_(collections), worker_(worker), accepts_changes_(std::move(accepts_changes)) {}

  // Returns whether there are such calls: the server may have switched administration off.
  bool exist() const { return worker_ != nullptr; }

  // Returns the change that a request is, or nullopt.
  std::optional<CollectionCall> CallOf(const Request& request) const;

  // Answers a change. `context` must refer to the record of `reply`.
  void Handle(const Request& request, service::CallContext context, std::shared_ptr<ReplyOnce> reply);

 private:
  // Makes the change, and returns the body of the answer.
  using Change = absl::AnyInvocable<absl::StatusOr<std::string>(const service::ChangeContext& change)>;

  absl::StatusOr<Change> ChangeOf(CollectionCall call, const std::string& name, const std::string& body);

  service::CollectionApi* const collections_;
  service::Worker* const worker_;
  const std::function<absl::Status()> accepts_changes_;
};

}  // namespace maxsim::http
