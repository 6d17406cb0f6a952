// This is the C++ client of maxsimd.
//
//   absl::StatusOr<std::unique_ptr<Client>> client = Client::Create({.target = "search-1:7070"});
//   v1::RerankRequest request;
//   request.set_collection("passages");
//   *request.add_queries() = MakeQuery(MakeTokens(values, /*dim=*/128));
//   *request.mutable_candidates() = StringCandidates(ids);
//   absl::StatusOr<v1::RerankResponse> response = (*client)->Rerank(request);
//
// Deadlines: every call is bounded by a timeout that covers all of its attempts; the server sees what is left of it.
// Retries: see client/retry.h. Rerank, Upsert, Delete, Get, GetInfo and ListCollections are retried. LoadCollection and
// the other calls that change which collections there are, or how they are stored, are tried once, because a second
// attempt after a lost answer would report a conflict with the first; they wait for a connection before, up to a
// second. Errors: the server's code and message; RetryAfter (client/status.h) reads the retry hint of one that was not
// retried. A Client is thread-safe, and made once: it owns the connections.
#pragma once

#include <memory>

#include "absl/functional/any_invocable.h"
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

// An asynchronous call that can be cancelled. Copies refer to the same call. Destroying one does not cancel it.
class CallHandle {
 public:
  CallHandle() = default;

  // Ends the call with CANCELLED unless its result is there already. Its callback still runs, once. Thread-safe.
  void Cancel() const;

 private:
  friend class Client;
  explicit CallHandle(std::weak_ptr<AsyncCall> call) : call_(std::move(call)) {}
  std::weak_ptr<AsyncCall> call_;
};

using RerankCallback = absl::AnyInvocable<void(absl::StatusOr<v1::RerankResponse>) &&>;

class Client {
 public:
  // Checks the options and reads the TLS files. Connects on the first call, not here: a server that is down makes calls
  // fail with UNAVAILABLE, never Create.
  static absl::StatusOr<std::unique_ptr<Client>> Create(const ClientOptions& options);

  // Cancels the asynchronous calls that are under way and waits for their callbacks. Must not run inside a callback.
  // Sessions stay usable.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  absl::StatusOr<v1::RerankResponse> Rerank(const v1::RerankRequest& request, const CallOptions& call = {});

  // Returns at once; `callback` runs exactly once, on a thread of gRPC's, and must not block it. The request is shared,
  // not copied, and must not be changed until then.
  CallHandle RerankAsync(std::shared_ptr<const v1::RerankRequest> request, const CallOptions& call,
                         RerankCallback callback);

  // Opens a RerankStream. The timeout bounds the whole session; zero means none. Never retried.
  std::unique_ptr<RerankSession> OpenSession(absl::Duration timeout = absl::ZeroDuration());

  // Write documents of a live collection. Each document is replaced whole, so that a retry leaves the same documents as
  // a single attempt. With a version, though, the retry may be answered STALE for what the first attempt wrote; without
  // one, it may replace what another client wrote in between. The request has 1 to 10,000 documents (Delete: 1 to
  // 100,000 ids) and at most Limits.max_request_bytes.
  absl::StatusOr<v1::UpsertResponse> Upsert(const v1::UpsertRequest& request, const CallOptions& call = {});
  absl::StatusOr<v1::DeleteResponse> Delete(const v1::DeleteRequest& request, const CallOptions& call = {});

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

  // True while a connection to the server stands: tells an UNAVAILABLE that the server sent from one that means it was
  // never reached.
  bool connected() const;

  const ClientOptions& options() const;

 private:
  friend class AsyncCall;
  struct Core;
  explicit Client(std::shared_ptr<Core> core);
  const std::shared_ptr<Core> core_;
};

}  // namespace maxsim::client
