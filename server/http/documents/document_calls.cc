#include "server/http/documents/document_calls.h"

#include <optional>
#include <utility>

#include <boost/asio/post.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "server/http/documents/count_body.h"
#include "server/http/documents/document_body.h"
#include "server/http/documents/document_json.h"
#include "server/http/rerank/responses.h"
#include "server/http/text/http_status.h"
#include "server/service/call/call_spans.h"

namespace maxsim::http {
namespace {

Response DocumentError(const absl::Status& status) {
  return Error(ToHttpCode(status.code()), status, FormatDocumentError(status));
}

// On a thread of the pool, formats `answer` with `format`, or formats its error, and replies. The calling thread must
// not block, so it does not format the answer itself.
template <typename Answer, typename Format>
void AnswerFrom(boost::asio::thread_pool& pool, std::shared_ptr<ReplyOnce> reply, absl::StatusOr<Answer> answer,
                Format format) {
  Guarded<absl::Status>([&] {
    boost::asio::post(pool,
                      [reply = std::move(reply), answer = std::move(answer), format = std::move(format)]() mutable {
                        Guarded<absl::Status>([&] {
                          (*reply)(answer.ok() ? format(*answer) : DocumentError(answer.status()));
                          return absl::OkStatus();
                        }).IgnoreError();
                      });
    return absl::OkStatus();
  }).IgnoreError();
}

// Returns a response with the body that `format` makes. If `format` fails, for example because the call has ended,
// returns its error.
template <typename Format>
Response LongAnswer(Format format) {
  auto body = Guarded<absl::StatusOr<std::string>>(format);
  return body.ok() ? Json(200, *std::move(body)) : Error(StatusOfFailureHere(body.status()), body.status());
}

template <typename Answer>
void AnswerWrite(boost::asio::thread_pool& pool, std::shared_ptr<ReplyOnce> reply, absl::StatusOr<Answer> answer) {
  AnswerFrom(pool, std::move(reply), std::move(answer),
             [](const Answer& written) { return Json(200, FormatWrites(written)); });
}

}  // namespace

std::optional<DocumentCall> DocumentCallOf(const Request& request) {
  if (request.method == "POST" && request.path == kCountPath) return DocumentCall::kCount;
  if (request.method == "POST" && request.path == kFacetsPath) return DocumentCall::kFacets;
  const std::optional<DocumentPath> path = ParseDocumentPath(request.path);
  return path.has_value() ? FindDocumentCall(request.method, *path) : std::nullopt;
}

const char* MethodOf(DocumentCall call) {
  switch (call) {
    case DocumentCall::kUpsert:
      return "http_upsert";
    case DocumentCall::kDelete:
      return "http_delete";
    case DocumentCall::kScroll:
      return "http_scroll";
    case DocumentCall::kCount:
      return "http_count";
    case DocumentCall::kFacets:
      return "http_facets";
    case DocumentCall::kGetOne:
    case DocumentCall::kGet:
      break;
  }
  return "http_get";
}

std::string_view SpanNameOf(DocumentCall call) {
  switch (call) {
    case DocumentCall::kUpsert:
      return service::kUpsertSpan;
    case DocumentCall::kDelete:
      return service::kDeleteSpan;
    case DocumentCall::kScroll:
      return service::kScrollSpan;
    case DocumentCall::kCount:
      return service::kCountSpan;
    case DocumentCall::kFacets:
      return service::kFacetsSpan;
    case DocumentCall::kGetOne:
    case DocumentCall::kGet:
      break;
  }
  return service::kGetSpan;
}

service::Scope ScopeOf(DocumentCall call) {
  const bool writes = call == DocumentCall::kUpsert || call == DocumentCall::kDelete;
  return writes ? service::Scope::kWrite : service::Scope::kSearch;
}

void DocumentCalls::Refuse(service::CallContext& context, ReplyOnce& reply, const absl::Status& status) {
  reply.record()->SetSpan(std::move(context.span));
  reply(Error(StatusOfFailureHere(status), status));
}

void DocumentCalls::Handle(Request request, service::CallContext context, std::shared_ptr<ReplyOnce> reply,
                           const CallEnd& end) {
  const DocumentCall call = *DocumentCallOf(request);
  if (call == DocumentCall::kCount) return Count(request, std::move(context), std::move(reply), end);
  if (call == DocumentCall::kFacets) return Facets(request, std::move(context), std::move(reply), end);
  DocumentPath path = *ParseDocumentPath(request.path);
  switch (call) {
    case DocumentCall::kCount:
    case DocumentCall::kFacets:
      return;
    case DocumentCall::kUpsert:
      return Upsert(std::move(request), std::move(context), std::move(path.collection), std::move(reply), end);
    case DocumentCall::kDelete:
      return Delete(request, std::move(context), std::move(path.collection), std::move(reply), end);
    case DocumentCall::kGetOne:
      return GetOne(std::move(context), path, std::move(reply));
    case DocumentCall::kGet:
      return Get(request, std::move(context), std::move(path.collection), std::move(reply), end);
    case DocumentCall::kScroll:
      return Scroll(request, std::move(context), std::move(path.collection), std::move(reply), end);
  }
}

void DocumentCalls::Upsert(Request request, service::CallContext context, std::string collection,
                           std::shared_ptr<ReplyOnce> reply, const CallEnd& end) {
  auto parsed = Guarded<absl::StatusOr<v1::UpsertRequest>>(
      [&] { return ParseUpsertBody(request.body, documents_->limits(), [&end] { return end.Check(); }); });
  if (!parsed.ok()) return Refuse(context, *reply, parsed.status());
  request.body = std::string();
  parsed->set_collection(std::move(collection));
  std::shared_ptr<const void> place;
  for (const v1::Document& document : parsed->documents()) {
    if (document.text().empty()) continue;
    place = text_places_->TryTake();
    if (place != nullptr) break;
    reply->record()->SetSpan(std::move(context.span));
    return (*reply)(Error(text_places_->Full()));
  }
  documents_->Upsert(
      *std::move(parsed), std::move(context),
      [this, place = std::move(place), reply = std::move(reply)](absl::StatusOr<v1::UpsertResponse> response) mutable {
        AnswerWrite(*pool_, std::move(reply), std::move(response));
      });
}

void DocumentCalls::Delete(const Request& request, service::CallContext context, std::string collection,
                           std::shared_ptr<ReplyOnce> reply, const CallEnd& end) {
  auto parsed = Guarded<absl::StatusOr<v1::DeleteRequest>>(
      [&] { return ParseDeleteBody(request.body, [&end] { return end.Check(); }); });
  if (!parsed.ok()) return Refuse(context, *reply, parsed.status());
  parsed->set_collection(std::move(collection));
  documents_->Delete(*parsed, std::move(context),
                     [this, reply = std::move(reply)](absl::StatusOr<v1::DeleteResponse> response) mutable {
                       AnswerWrite(*pool_, std::move(reply), std::move(response));
                     });
}

void DocumentCalls::Get(const Request& request, service::CallContext context, std::string collection,
                        std::shared_ptr<ReplyOnce> reply, const CallEnd& end) {
  auto parsed = Guarded<absl::StatusOr<v1::GetRequest>>(
      [&] { return ParseGetBody(request.body, [&end] { return end.Check(); }); });
  if (!parsed.ok()) return Refuse(context, *reply, parsed.status());
  parsed->set_collection(std::move(collection));
  documents_->Get(*std::move(parsed), std::move(context),
                  [this, reply = std::move(reply), end](absl::StatusOr<v1::GetResponse> response) mutable {
                    AnswerFrom(*pool_, std::move(reply), std::move(response), [end](const v1::GetResponse& found) {
                      return LongAnswer([&] { return FormatDocuments(found, [&end] { return end.Check(); }); });
                    });
                  });
}

void DocumentCalls::GetOne(service::CallContext context, const DocumentPath& path, std::shared_ptr<ReplyOnce> reply) {
  v1::GetRequest request;
  request.set_collection(path.collection);
  if (documents_->HasIntIds(context.caller, path.collection)) {
    int64_t id = 0;
    if (!absl::SimpleAtoi(path.id, &id)) {
      return Refuse(context, *reply,
                    service::InvalidField(
                        "id", absl::StrCat(Quote(path.id), " is not a 64-bit integer, as the ids of collection ",
                                           path.collection, " are")));
    }
    request.mutable_int_ids()->add_ids(id);
  } else {
    request.mutable_string_ids()->add_ids(path.id);
  }
  documents_->Get(std::move(request), std::move(context),
                  [this, reply = std::move(reply), path](absl::StatusOr<v1::GetResponse> response) mutable {
                    AnswerFrom(*pool_, std::move(reply), std::move(response),
                               [path = std::move(path)](const v1::GetResponse& found) {
                                 if (found.documents_size() == 1) return Json(200, FormatDocument(found));
                                 return Error(absl::NotFoundError(absl::StrCat("collection ", path.collection,
                                                                               " has no document ", Quote(path.id))));
                               });
                  });
}

void DocumentCalls::Scroll(const Request& request, service::CallContext context, std::string collection,
                           std::shared_ptr<ReplyOnce> reply, const CallEnd& end) {
  auto parsed = Guarded<absl::StatusOr<v1::ScrollRequest>>(
      [&] { return ParseScrollBody(request.body, [&end] { return end.Check(); }); });
  if (!parsed.ok()) return Refuse(context, *reply, parsed.status());
  parsed->set_collection(std::move(collection));
  documents_->Scroll(*parsed, std::move(context),
                     [this, reply = std::move(reply), end](absl::StatusOr<v1::ScrollResponse> response) mutable {
                       AnswerFrom(*pool_, std::move(reply), std::move(response), [end](const v1::ScrollResponse& page) {
                         return LongAnswer([&] { return FormatPage(page, [&end] { return end.Check(); }); });
                       });
                     });
}

void DocumentCalls::Count(const Request& request, service::CallContext context, std::shared_ptr<ReplyOnce> reply,
                          const CallEnd& end) {
  auto parsed = Guarded<absl::StatusOr<v1::CountRequest>>(
      [&] { return ParseCountBody(request.body, [&end] { return end.Check(); }); });
  if (!parsed.ok()) return Refuse(context, *reply, parsed.status());
  documents_->Count(*parsed, std::move(context),
                    [this, reply = std::move(reply)](absl::StatusOr<v1::CountResponse> response) mutable {
                      AnswerFrom(*pool_, std::move(reply), std::move(response),
                                 [](const v1::CountResponse& found) { return Json(200, FormatCount(found)); });
                    });
}

void DocumentCalls::Facets(const Request& request, service::CallContext context, std::shared_ptr<ReplyOnce> reply,
                           const CallEnd& end) {
  auto parsed = Guarded<absl::StatusOr<v1::FacetsRequest>>(
      [&] { return ParseFacetsBody(request.body, [&end] { return end.Check(); }); });
  if (!parsed.ok()) return Refuse(context, *reply, parsed.status());
  documents_->Facets(*parsed, std::move(context),
                     [this, reply = std::move(reply)](absl::StatusOr<v1::FacetsResponse> response) mutable {
                       AnswerFrom(*pool_, std::move(reply), std::move(response),
                                  [](const v1::FacetsResponse& found) { return Json(200, FormatFacets(found)); });
                     });
}

}  // namespace maxsim::http
