// Answers the calls that create, compact and copy collections and set their layouts. It is internal to server/http.
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

// Runs the changes on `worker`, which runs the changes of one collection one after another, including those that came
// by gRPC. A change continues when its client closes the connection, and http.request_timeout does not apply to it: a
// change may take minutes, and proxies give up sooner. When the server stops, it ends the change (Role::StopChanges).
// Thread-safe. The object must outlive its calls, and its constructor's arguments must outlive the object.
class CollectionCalls {
 public:
  // `accepts_changes` returns OK, or why no change is accepted now.
  CollectionCalls(service::CollectionApi* collections, service::Worker* worker,
                  std::function<absl::Status()> accepts_changes)
      : collections_(collections), worker_(worker), accepts_changes_(std::move(accepts_changes)) {}

  // Returns whether clients may change collections: false if administration is switched off.
  bool exist() const { return worker_ != nullptr; }

  // Returns which of these calls a request is, or nullopt if it is none.
  std::optional<CollectionCall> CallOf(const Request& request) const;

  // Makes the change and answers the request. `context` must refer to reply->record().
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
