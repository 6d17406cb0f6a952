#include "server/http/rerank/rerank_calls.h"

#include <string>
#include <utility>

#include <boost/asio/post.hpp>

#include "absl/strings/str_cat.h"
#include "client/error_details.h"
#include "server/http/rerank/explain_json.h"
#include "server/http/rerank/rejections.h"
#include "server/http/rerank/rerank_body.h"
#include "server/http/rerank/responses.h"
#include "server/http/text/http_status.h"
#include "server/service/request/request_texts.h"
#include "server/tracing/trace_context.h"

namespace maxsim::http {
namespace {

// If the client may have meant its documents as texts and not as ids, returns the path to which it should have sent the
// request. Otherwise returns "".
std::string TextPathOf(const v1::RerankRequest& request, const RerankPath& path) {
  const bool may_be_texts =
      !path.strings_are_texts && service::HasTexts(request) && request.candidates().has_string_ids();
  return may_be_texts ? absl::StrCat("/text", std::string(path.path)) : "";
}

// If the client may have sent texts to a path for ids, adds the right path to an error about an unknown collection or
// id.
absl::Status WithTextHint(const absl::Status& status, const std::string& text_path) {
  if (text_path.empty() || !(absl::IsNotFound(status) || absl::IsInvalidArgument(status))) return status;
  return client::WithAddition(status, absl::StrCat("; where the documents are texts, ask ", text_path));
}

// Returns NOT_FOUND if none of the ids of a query with a text was found. The ids are probably texts that were sent to a
// path without /text.
absl::StatusOr<v1::RerankResponse> TextsForIds(const AnswerForm& form, v1::RerankResponse response) {
  if (form.text_path.empty() || response.results_size() != 1) return response;
  const v1::QueryResult& result = response.results(0);
  if (result.scores_size() > 0 || !result.has_missing_string_ids()) return response;
  return service::FieldError(absl::StatusCode::kNotFound, client::kReasonUnknownIds, "documents",
                             absl::StrCat("none of ", result.missing_string_ids().ids_size(), " ids is known"));
}

// Clients of other services expect a different id in each answer.
std::string NewRequestId() {
  return absl::StrCat("rerank-", absl::Hex(tracing::RandomId(), absl::kZeroPad16),
                      absl::Hex(tracing::RandomId(), absl::kZeroPad16));
}

}  // namespace

void RerankCalls::Refuse(service::CallContext& context, ReplyOnce& reply, int http_status,
                         const absl::Status& status) const {
  reply.record()->SetSpan(std::move(context.span));
  // Only rerank requests count as rejected.
  if (context.method == kRerankMethod) CountRejectedCall(http_status, status, *metrics_);
  reply(Error(http_status, status));
}

bool RerankCalls::Admit(service::CallContext& context, ReplyOnce& reply, const std::string& text_path,
                        v1::RerankRequest* call, std::shared_ptr<const void>* place) {
  if (absl::Status chosen = rerank_->ChooseCollection(context.caller, call); !chosen.ok()) {
    Refuse(context, reply, 400, WithTextHint(chosen, text_path));
    return false;
  }
  if (!service::HasTexts(*call)) return true;
  *place = text_places_->TryTake();
  if (*place == nullptr) Refuse(context, reply, 429, text_places_->Full());
  return *place != nullptr;
}

void RerankCalls::Explain(Request request, service::CallContext context, std::shared_ptr<ReplyOnce> reply,
                          const CallEnd& end) {
  auto parsed = Guarded<absl::StatusOr<v1::RerankRequest>>(
      [&] { return ParseExplainRequest(request.body, explain_->limits(), [&end] { return end.Check(); }); });
  if (!parsed.ok()) return Refuse(context, *reply, StatusOfFailureHere(parsed.status()), parsed.status());
  request.body = std::string();
  std::shared_ptr<const void> place;
  if (!Admit(context, *reply, /*text_path=*/"", &*parsed, &place)) return;
  std::string collection = parsed->collection();
  v1::Candidates document = parsed->candidates();
  explain_->Explain(*std::move(parsed), std::move(context),
                    [place = std::move(place), collection = std::move(collection), document = std::move(document),
                     reply = std::move(reply)](absl::StatusOr<v1::ExplainResponse> explanation) {
                      Guarded<absl::Status>([&] {
                        (*reply)(explanation.ok() ? Json(200, FormatExplanation(collection, document, *explanation))
                                                  : ExplainError(explanation.status()));
                        return absl::OkStatus();
                      }).IgnoreError();
                    });
}

void RerankCalls::Rerank(Request request, RerankPath path, service::CallContext context,
                         std::shared_ptr<ReplyOnce> reply, const CallEnd& end) {
  path.strings_are_texts |= root_documents_are_texts_;
  auto parsed = Guarded<absl::StatusOr<RerankBody>>(
      [&] { return ParseRerankBody(request.body, path, rerank_->limits(), [&end] { return end.Check(); }); });
  if (!parsed.ok()) return Refuse(context, *reply, StatusOfFailureHere(parsed.status()), parsed.status());
  request.body = std::string();
  parsed->form.model = parsed->request.collection();
  parsed->form.text_path = TextPathOf(parsed->request, path);
  if (parsed->request.request_id().empty()) parsed->request.set_request_id(NewRequestId());
  std::shared_ptr<const void> place;
  if (!Admit(context, *reply, parsed->form.text_path, &parsed->request, &place)) return;
  if (parsed->form.model.empty()) parsed->form.model = parsed->request.collection();
  rerank_->Rerank(std::move(parsed->request), std::move(context),
                  [this, place = std::move(place), form = std::move(parsed->form), reply = std::move(reply),
                   end](absl::StatusOr<v1::RerankResponse> response) mutable {
                    Guarded<absl::Status>([&] {
                      Answer(std::move(form), std::move(response), std::move(reply), end);
                      return absl::OkStatus();
                    }).IgnoreError();
                  });
}

void RerankCalls::Answer(AnswerForm form, absl::StatusOr<v1::RerankResponse> response, std::shared_ptr<ReplyOnce> reply,
                         const CallEnd& end) {
  if (response.ok()) {
    response = TextsForIds(form, *std::move(response));
    if (!response.ok()) metrics_->CountRejection(Rejection::kNotFound);
  }
  if (!response.ok()) {
    return (*reply)(ServiceError(absl::IsNotFound(response.status()) ? WithTextHint(response.status(), form.text_path)
                                                                     : response.status()));
  }
  // Formatting a long answer takes long, so it is done on a thread of the pool and not on the scheduler's thread.
  boost::asio::post(
      *pool_, [form = std::move(form), reply = std::move(reply), response = *std::move(response), end]() mutable {
        auto body = Guarded<absl::StatusOr<std::string>>(
            [&] { return FormatRerankResponse(form, response, [&end] { return end.Check(); }); });
        Guarded<absl::Status>([&] {
          (*reply)(body.ok() ? Json(200, *std::move(body)) : Error(StatusOfFailureHere(body.status()), body.status()));
          return absl::OkStatus();
        }).IgnoreError();
      });
}

}  // namespace maxsim::http
