// The calls of DocumentService that read.
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "base/guard.h"
#include "client/status.h"
#include "server/service/call/call.h"
#include "server/service/call/call_record.h"
#include "server/service/call/call_spans.h"
#include "server/service/call/status.h"
#include "server/service/documents.h"
#include "server/service/documents/document_scroll.h"

namespace maxsim::service {
namespace {

// The maximum number of attempts of one Get, with 1 ms between them. An attempt fails if a document is replaced while
// it is read. After that, attempts keep failing for some milliseconds, until a snapshot with the new document is
// published. This may happen with each document of a call.
constexpr int kMaxReadAttempts = 50;
// The maximum attempts of one Scroll. Few: each looks at all documents.
constexpr int kMaxPassAttempts = 3;
constexpr std::chrono::milliseconds kReadAgainDelay{1};
constexpr absl::Duration kReplacedRetryDelay = absl::Milliseconds(100);

// Calls `read` until it returns anything but ABORTED, at most `max_attempts` times. After that, returns UNAVAILABLE
// about `field`, the field of the request that chooses the documents.
template <typename Response, typename Read>
absl::StatusOr<Response> ReadUnreplaced(const char* field, int max_attempts, Read read) {
  for (int attempt = 0; attempt < max_attempts; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(kReadAgainDelay);
    absl::StatusOr<Response> response = read();
    if (!absl::IsAborted(response.status())) return response;
  }
  absl::Status status = FieldError(absl::StatusCode::kUnavailable, client::kReasonDocumentsReplaced, field,
                                   "documents are replaced faster than they are read with their versions");
  client::SetRetryAfter(kReplacedRetryDelay, status);
  return status;
}

}  // namespace

std::shared_ptr<store::LiveDocuments> DocumentService::VersionsOf(const store::Collection& collection) const {
  if (!collection.is_live()) return nullptr;
  absl::StatusOr<std::shared_ptr<store::LiveDocuments>> live = store_->FindLive(collection.name());
  return live.ok() ? *std::move(live) : nullptr;
}

absl::StatusOr<v1::GetResponse> DocumentService::Read(const v1::GetRequest& request) const {
  if (absl::Status status = CheckState(); !status.ok()) return status;
  if (absl::Status status = CheckCollectionField(request.collection()); !status.ok()) return status;
  return ReadUnreplaced<v1::GetResponse>("ids", kMaxReadAttempts, [&]() -> absl::StatusOr<v1::GetResponse> {
    const absl::StatusOr<std::shared_ptr<const store::Collection>> collection = store_->Find(request.collection());
    if (!collection.ok()) return collection.status();
    return ReadDocuments(request, **collection, VersionsOf(**collection).get(), limits(), &readers_);
  });
}

absl::StatusOr<v1::GetResponse> DocumentService::GetNow(const v1::GetRequest& request, const CallContext& context) {
  DescribeDocuments(request.collection(), context.method,
                    request.string_ids().ids_size() + request.int_ids().ids_size(), context.span);
  return Guarded([&] { return Read(request); });
}

void DocumentService::Get(const v1::GetRequest& request, CallContext context, Done<v1::GetResponse> done) {
  absl::StatusOr<v1::GetResponse> response = GetNow(request, context);
  Record(context, metrics(), response.status());
  done(std::move(response));
}

absl::StatusOr<std::shared_ptr<const store::Collection>> DocumentService::FindToRead(const std::string& name) const {
  if (absl::Status status = CheckState(); !status.ok()) return status;
  if (absl::Status status = CheckCollectionField(name); !status.ok()) return status;
  return store_->Find(name);
}

void DocumentService::Scroll(const v1::ScrollRequest& request, CallContext context, Done<v1::ScrollResponse> done) {
  Call<v1::ScrollResponse> call(metrics(), std::move(context), std::move(done));
  DescribeCount(request.collection(), call.context.method, call.context.span);
  call.Finish(Guarded([&]() -> absl::StatusOr<v1::ScrollResponse> {
    if (absl::Status status = FindToRead(request.collection()).status(); !status.ok()) return status;
    const auto place = passes_.Take();
    if (!place.ok()) return place.status();
    return ReadUnreplaced<v1::ScrollResponse>("after", kMaxPassAttempts, [&]() -> absl::StatusOr<v1::ScrollResponse> {
      const absl::StatusOr<std::shared_ptr<const store::Collection>> collection = store_->Find(request.collection());
      if (!collection.ok()) return collection.status();
      return ScrollDocuments(request, **collection, VersionsOf(**collection).get(), limits(), &readers_,
                             [&] { return CheckAwaited(call.context, "while documents were listed"); });
    });
  }));
}

void DocumentService::Count(const v1::CountRequest& request, CallContext context, Done<v1::CountResponse> done) {
  Call<v1::CountResponse> call(metrics(), std::move(context), std::move(done));
  DescribeCount(request.collection(), call.context.method, call.context.span);
  call.Finish(Guarded([&]() -> absl::StatusOr<v1::CountResponse> {
    const auto collection = FindToRead(request.collection());
    if (!collection.ok()) return collection.status();
    return CountDocuments(request, **collection, [&] { return CheckAwaited(call.context, kWhileFiltering); });
  }));
}

void DocumentService::Facets(const v1::FacetsRequest& request, CallContext context, Done<v1::FacetsResponse> done) {
  Call<v1::FacetsResponse> call(metrics(), std::move(context), std::move(done));
  DescribeCount(request.collection(), call.context.method, call.context.span);
  call.Finish(Guarded([&]() -> absl::StatusOr<v1::FacetsResponse> {
    const auto collection = FindToRead(request.collection());
    if (!collection.ok()) return collection.status();
    const auto place = passes_.Take();
    if (!place.ok()) return place.status();
    return CountFacetsOf(request, **collection, limits(),
                         [&] { return CheckAwaited(call.context, "while values were counted"); });
  }));
}

bool DocumentService::HasIntIds(const Caller&, std::string_view collection) const {
  const absl::StatusOr<std::shared_ptr<const store::Collection>> found = store_->Find(collection);
  return found.ok() && (*found)->manifest().id_type == collection::IdType::kInt64;
}

}  // namespace maxsim::service
