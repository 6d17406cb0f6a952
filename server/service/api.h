// The interfaces through which the ports pass calls to the server. There are two implementations: a server of
// collections, and a router (server/cluster/), which forwards the work to other servers. Both take rerank and explain
// calls through RerankFront. All classes are thread-safe. Every call is counted and timed in the metrics.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/stop.h"
#include "maxsim/v1/admin.pb.h"
#include "maxsim/v1/documents.pb.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/service/bootstrap/snapshot_sink.h"
#include "server/service/call/call.h"
#include "server/service/call/call_context.h"
#include "server/service/call/limits.h"
#include "server/service/tenants/caller.h"
#include "server/tracing/span.h"

namespace maxsim::service {

class RerankApi {
 public:
  virtual ~RerankApi() = default;

  // Scores a request, and calls `done` with the answer or an error. Errors as in rerank.proto; RESOURCE_EXHAUSTED
  // carries RetryInfo (server/service/call/status.h). Takes references, because moving a message takes time, and
  // several objects pass it on.
  virtual void Rerank(v1::RerankRequest&& request, CallContext&& context, Done<v1::RerankResponse>&& done) = 0;

  // Chooses the collection for APIs in which a request names a model and no collection. If all candidates are inline
  // documents, clears a collection name that this server does not serve. Otherwise, if the request names no collection,
  // sets the name of the server's only one. Returns INVALID_ARGUMENT about the field "model" if the server has no
  // collection or several.
  virtual absl::Status ChooseCollection(const Caller& caller, v1::RerankRequest* request) const = 0;

  // Counts a call whose request could not be parsed, so that Rerank is not called.
  virtual void CountUnread(std::string_view method, absl::Time arrival, const absl::Status& status) = 0;

  virtual const RequestLimits& limits() const = 0;

  // Returns what is known of the encoder of texts, or null if there is no encoder.
  virtual std::unique_ptr<v1::EncoderInfo> encoder() const = 0;
};

class ExplainApi {
 public:
  virtual ~ExplainApi() = default;

  // Explains the score of the request's only query with its only candidate, which must be an id. top_k and return
  // options have no effect. Errors as in rerank.proto, with NOT_FOUND for an unknown id, INVALID_ARGUMENT beyond
  // kMaxExplainedPairs, and RESOURCE_EXHAUSTED with RetryInfo while too many other explanations are being computed.
  virtual void Explain(v1::RerankRequest request, CallContext context, Done<v1::ExplainResponse> done) = 0;

  virtual const RequestLimits& limits() const = 0;
};

class DocumentApi {
 public:
  using Submitted = absl::AnyInvocable<void()>;

  virtual ~DocumentApi() = default;

  // Writes documents. Errors as in documents.proto. `submitted` may be null. It is called when the documents have their
  // place in the order of the collection's writes: documents of any later call are written after these. If the call
  // fails before that, `done` gets the error and `submitted` is not called. So a caller that waits for `submitted`
  // before its next call can repeat a failed call without changing the order of its writes.
  virtual void Upsert(v1::UpsertRequest request, CallContext context, Done<v1::UpsertResponse> done,
                      Submitted submitted = nullptr) = 0;

  // Deletes documents.
  virtual void Delete(const v1::DeleteRequest& request, CallContext context, Done<v1::DeleteResponse> done) = 0;

  // Returns documents as stored. May block to read files and devices.
  virtual void Get(const v1::GetRequest& request, CallContext context, Done<v1::GetResponse> done) = 0;

  // Scroll, Count and Facets examine all documents that match a filter, on the calling thread. While too many calls of
  // Facets or Scroll run, further ones return RESOURCE_EXHAUSTED with RetryInfo. Scroll may block as Get does.
  virtual void Scroll(const v1::ScrollRequest& request, CallContext context, Done<v1::ScrollResponse> done) = 0;
  virtual void Count(const v1::CountRequest& request, CallContext context, Done<v1::CountResponse> done) = 0;
  virtual void Facets(const v1::FacetsRequest& request, CallContext context, Done<v1::FacetsResponse> done) = 0;

  // Returns whether the collection's ids are integers. Returns false if it is not served, or if the caller may not use
  // it.
  virtual bool HasIntIds(const Caller& caller, std::string_view collection) const = 0;

  // Counts a call in the metrics that was refused before it reached this object.
  virtual void CountUnread(std::string_view method, absl::Time arrival, const absl::Status& status) const = 0;

  virtual const RequestLimits& limits() const = 0;
};

// Facts about the call that changes collections.
struct ChangeContext {
  const StopSignal* stop = nullptr;  // may be null; once it is stopped, the change ends soon
  tracing::SpanParent span = {};     // the call's span; calls to other servers become its children
};

// Calls block. When the context's `stop` is stopped, they end soon, with the status of `stop`. Errors as in
// admin.proto.
class CollectionApi {
 public:
  virtual ~CollectionApi() = default;

  virtual absl::StatusOr<v1::CollectionInfo> LoadForClient(const v1::LoadCollectionRequest& request,
                                                           const ChangeContext& context) = 0;
  virtual absl::StatusOr<v1::CollectionInfo> CreateForClient(const v1::CreateCollectionRequest& request,
                                                             const ChangeContext& context) = 0;
  // `changed` must not be null.
  virtual absl::StatusOr<v1::CollectionInfo> Compact(const std::string& name, bool* changed,
                                                     const ChangeContext& context) = 0;
  virtual absl::StatusOr<v1::ReloadCollectionResponse> Reload(const v1::ReloadCollectionRequest& request,
                                                              const ChangeContext& context) = 0;
  // Returns the last sequence that the copy holds.
  virtual absl::StatusOr<uint64_t> SnapshotForClient(const std::string& name, const std::string& path,
                                                     const ChangeContext& context) = 0;
  virtual absl::StatusOr<v1::SlotLayout> SetLayout(const v1::SetLayoutRequest& request,
                                                   const ChangeContext& context) = 0;
  // Passes a snapshot of a live collection to `sink`, or returns its error.
  virtual absl::Status ReadSnapshot(const std::string& name, SnapshotSink sink, const ChangeContext& context) = 0;
  virtual absl::StatusOr<v1::BootstrapCollectionResponse> Bootstrap(const v1::BootstrapCollectionRequest& request,
                                                                    const ChangeContext& context) = 0;
  // `remove_settings` as in UnloadCollectionRequest.
  virtual absl::Status Unload(const std::string& name, bool remove_settings, const ChangeContext& context) = 0;
  virtual std::vector<v1::CollectionInfo> List() const = 0;
};

}  // namespace maxsim::service
