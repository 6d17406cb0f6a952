// Answers rerank and explain calls. Internal to server/http.
#pragma once

#include <memory>
#include <string>

#include <boost/asio/thread_pool.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/http/rerank/rerank_json.h"
#include "server/http/rerank/rerank_path.h"
#include "server/http/transport/call_end.h"
#include "server/http/transport/text_places.h"
#include "server/http/transport/transport.h"
#include "server/observability/metrics.h"
#include "server/service/api.h"

namespace maxsim::http {

// Thread-safe.
class RerankCalls {
 public:
  // The pointers must outlive the calls. If `root_documents_are_texts`, strings in `documents` are texts on every path,
  // else only on paths below /text.
  RerankCalls(service::RerankApi* rerank, service::ExplainApi* explain, Metrics* metrics, TextPlaces* text_places,
              boost::asio::thread_pool* pool, bool root_documents_are_texts)
      : rerank_(rerank),
        explain_(explain),
        metrics_(metrics),
        text_places_(text_places),
        pool_(pool),
        root_documents_are_texts_(root_documents_are_texts) {}

  // Answer a request. `context` must refer to the record of `reply`.
  void Rerank(Request request, RerankPath path, service::CallContext context, std::shared_ptr<ReplyOnce> reply,
              const CallEnd& end);
  void Explain(Request request, service::CallContext context, std::shared_ptr<ReplyOnce> reply, const CallEnd& end);

 private:
  // Chooses the collection of a call. If the call has texts, also takes a place from text_places_, which limits how
  // many such calls run at a time. If either fails, answers the call with the error and returns false. `text_path` is
  // AnswerForm::text_path.
  bool Admit(service::CallContext& context, ReplyOnce& reply, const std::string& text_path, v1::RerankRequest* call,
             std::shared_ptr<const void>* place);
  // Answers a call that is refused before it reaches the service.
  void Refuse(service::CallContext& context, ReplyOnce& reply, int http_status, const absl::Status& status) const;
  void Answer(AnswerForm form, absl::StatusOr<v1::RerankResponse> response, std::shared_ptr<ReplyOnce> reply,
              const CallEnd& end);

  service::RerankApi* const rerank_;
  service::ExplainApi* const explain_;
  Metrics* const metrics_;
  TextPlaces* const text_places_;
  boost::asio::thread_pool* const pool_;
  const bool root_documents_are_texts_;
};

}  // namespace maxsim::http
