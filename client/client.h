// This is the C++ client of maxsimd.
//
//   absl::StatusOr<std::unique_ptr<Client>> client = Client::Create({.target = "search-1:7070"});
//   v1::RerankRequest request;
//   request.set_collection("passages");
//   *request.add_queries() = MakeQuery(MakeTokens(values, /*dim=*/128));
//   *request.mutable_candidates() = StringCandidates(ids);
//   absl::StatusOr<v1::RerankResponse> response = (*client)->Rerank(request);
//
// Deadlines: every call has a timeout that covers all of its attempts. Each attempt sends the server the time that is
// left. Retries: see client/retry.h. Rerank, Explain, Upsert, Delete, Get, Scroll, Count, Facets, GetInfo and
// ListCollections are retried. LoadCollection and the other calls that change which collections there are, or how they
// are stored, are tried once: if the answer to a first attempt was lost, a second attempt would report a conflict with
// the first. Before such a call, the client waits up to a second for a connection. Errors: they have the server's code
// and message. If a call failed without a retry, RetryAfter (client/status.h) returns the server's hint when to try
// again. A Client is thread-safe and owns the connections, so a process should create one and keep it.
#pragma once

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/options.h"
#include "client/session.h"
#include "maxsim/v1/admin.pb.h"
#include "maxsim/v1/documents.pb.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::client {

class AsyncCall;

// Overrides the client's options for one call.
struct CallOptions {
  absl::Duration timeout = absl::ZeroDuration();  // zero: the client's; absl::InfiniteDuration(): none
  int max_attempts = 0;                           // zero: the client's
};

// A handle of an asynchronous call, which can cancel it. Copies refer to the same call. Destroying a handle does not
// cancel the call.
class CallHandle {
 public:
  CallHandle() = default;

  // Ends the call with CANCELLED, unless it has its result already. In both cases its callback runs once. Thread-safe.
  void Cancel() const;

 private:
  friend class Client;
  explicit CallHandle(std::weak_ptr<AsyncCall> call) : call_(std::move(call)) {}
  std::weak_ptr<AsyncCall> call_;
};

using RerankCallback = absl::AnyInvocable<void(absl::StatusOr<v1::RerankResponse>) &&>;

class Client {
 public:
  // Checks the options and reads the TLS files. Does not connect: the first call does. So if the server is down, Create
  // succeeds, and calls fail with UNAVAILABLE.
  static absl::StatusOr<std::unique_ptr<Client>> Create(const ClientOptions& options);

  // Cancels all unfinished asynchronous calls and waits for their callbacks. Must not run inside a callback. Sessions
  // stay usable.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  absl::StatusOr<v1::RerankResponse> Rerank(const v1::RerankRequest& request, const CallOptions& call = {});

  // Returns the similarities of every token of one query with every token of one stored document, in FP64. The request
  // has one query, and one id as its candidates. NOT_FOUND if the collection does not have the id.
  absl::StatusOr<v1::ExplainResponse> Explain(const v1::RerankRequest& request, const CallOptions& call = {});

  // Returns at once. `callback` runs exactly once, on one of gRPC's threads, and must not block that thread. The client
  // shares the request and does not copy it: the caller must not change it until the callback runs.
  CallHandle RerankAsync(std::shared_ptr<const v1::RerankRequest> request, const CallOptions& call,
                         RerankCallback callback);

  // Opens a RerankStream. The timeout bounds the whole session; zero means none. Never retried.
  std::unique_ptr<RerankSession> OpenSession(absl::Duration timeout = absl::ZeroDuration());

  // Write or delete documents of a live collection. An upsert replaces the whole document, so that two attempts leave
  // the same documents as one. There are two exceptions if the answer to the first attempt is lost. A document with a
  // version may get the answer STALE, because the first attempt wrote it already. A document without a version may
  // replace one that another client wrote between the attempts. The request has 1 to 10,000 documents (Delete: 1 to
  // 100,000 ids) and at most Limits.max_request_bytes.
  absl::StatusOr<v1::UpsertResponse> Upsert(const v1::UpsertRequest& request, const CallOptions& call = {});
  absl::StatusOr<v1::DeleteResponse> Delete(const v1::DeleteRequest& request, const CallOptions& call = {});

  // Deletes all documents of a live collection that match the request's filter. One call of Delete deletes at most
  // 100,000 of them (10,000 with live.log: nats; through a router, in each group), so DeleteMatching repeats the call
  // until no more documents match. Each repetition sets min_sequence to the sequence of the last answer. Otherwise a
  // replica that lags could find documents again that are already deleted. `call` applies to each Delete. Returns the
  // sums of the answers, with has_more false. An error says how many documents were deleted before it (NumDeletedOf in
  // client/error_details.h). The numbers count documents that a failed attempt deleted, but not those of an attempt
  // whose answer was lost. Returns INVALID_ARGUMENT without a call if the request has no filter.
  //
  // With live.log: nats, the server that answers may not have applied all confirmed writes yet. It may then find a
  // document that a confirmed write has already replaced, and delete its replacement. To prevent this, set min_sequence
  // to the sequence of your last write, or use versions.
  //
  // A server runs at most two deletes with a filter at a time, and asks further ones to try again after a second. So
  // with the default of four attempts, a call waits up to three seconds for its turn.
  //
  // A retry, or a call after an error, also deletes documents that match and were written since the first attempt,
  // unless the request's version protects them.
  absl::StatusOr<v1::DeleteResponse> DeleteMatching(v1::DeleteRequest request, const CallOptions& call = {});

  // Reads documents of any collection, 1 to 1,000.
  absl::StatusOr<v1::GetResponse> Get(const v1::GetRequest& request, const CallOptions& call = {});

  // Returns a page of the documents of any collection, in the order of their ids. Set the request's `after` to the id
  // of the last document for the next page, as long as has_more is set.
  absl::StatusOr<v1::ScrollResponse> Scroll(const v1::ScrollRequest& request, const CallOptions& call = {});

  // Count the documents of any collection that match a filter.
  absl::StatusOr<v1::CountResponse> Count(const v1::CountRequest& request, const CallOptions& call = {});
  absl::StatusOr<v1::FacetsResponse> Facets(const v1::FacetsRequest& request, const CallOptions& call = {});

  absl::StatusOr<v1::GetInfoResponse> GetInfo(const CallOptions& call = {});

  absl::StatusOr<v1::ListCollectionsResponse> ListCollections(const CallOptions& call = {});
  absl::StatusOr<v1::LoadCollectionResponse> LoadCollection(const v1::LoadCollectionRequest& request,
                                                            const CallOptions& call = {});
  absl::StatusOr<v1::ReloadCollectionResponse> ReloadCollection(const v1::ReloadCollectionRequest& request,
                                                                const CallOptions& call = {});
  absl::StatusOr<v1::UnloadCollectionResponse> UnloadCollection(const v1::UnloadCollectionRequest& request,
                                                                const CallOptions& call = {});
  absl::StatusOr<v1::CreateCollectionResponse> CreateCollection(const v1::CreateCollectionRequest& request,
                                                                const CallOptions& call = {});
  absl::StatusOr<v1::CompactCollectionResponse> CompactCollection(const v1::CompactCollectionRequest& request,
                                                                  const CallOptions& call = {});
  absl::StatusOr<v1::SnapshotCollectionResponse> SnapshotCollection(const v1::SnapshotCollectionRequest& request,
                                                                    const CallOptions& call = {});
  // Makes the server copy a collection from another server. Returns when the collection is copied, loaded and up to
  // date, which takes minutes for a large one. Consider a longer timeout in `call`.
  absl::StatusOr<v1::BootstrapCollectionResponse> BootstrapCollection(const v1::BootstrapCollectionRequest& request,
                                                                      const CallOptions& call = {});
  // Reads a snapshot of a live collection. Passes each message to `sink` on the calling thread, in the order that
  // admin.proto describes. The server waits while `sink` runs, and ends the call if that takes more than five minutes.
  // An error of `sink` ends the call, and is returned. Without a timeout in `call` there is no deadline: set
  // ClientOptions.keepalive_time, so that the call ends if the server's machine is gone. The call is not retried.
  absl::Status ReadSnapshot(const v1::ReadSnapshotRequest& request,
                            absl::FunctionRef<absl::Status(const v1::ReadSnapshotResponse&)> sink,
                            const CallOptions& call = {});
  absl::StatusOr<v1::SetLayoutResponse> SetLayout(const v1::SetLayoutRequest& request, const CallOptions& call = {});

  // Returns whether a connection to the server exists. If a call failed with UNAVAILABLE, true means that the server
  // sent this error, and false that no server was reached.
  bool connected() const;

  const ClientOptions& options() const;

 private:
  friend class AsyncCall;
  struct Core;
  explicit Client(std::shared_ptr<Core> core);
  const std::shared_ptr<Core> core_;
};

}  // namespace maxsim::client
