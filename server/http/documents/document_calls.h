// Answers the calls that write and read documents. It is internal to server/http.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/thread_pool.hpp>

#include "server/http/documents/document_path.h"
#include "server/http/transport/call_end.h"
#include "server/http/transport/text_places.h"
#include "server/http/transport/transport.h"
#include "server/service/api.h"
#include "server/service/call/auth.h"

namespace maxsim::http {

// Returns which document call a request is, or nullopt if it is none.
std::optional<DocumentCall> DocumentCallOf(const Request& request);

// Return the call's name in the metrics and in traces, and the scope that its token needs.
const char* MethodOf(DocumentCall call);
std::string_view SpanNameOf(DocumentCall call);
service::Scope ScopeOf(DocumentCall call);

// Thread-safe. The object must outlive its calls, and the constructor's arguments must outlive the object.
class DocumentCalls {
 public:
  DocumentCalls(service::DocumentApi* documents, TextPlaces* text_places, boost::asio::thread_pool* pool)
      : documents_(documents), text_places_(text_places), pool_(pool) {}

  // Answers a document call. `context` must refer to the record of `reply`.
  void Handle(Request request, service::CallContext context, std::shared_ptr<ReplyOnce> reply, const CallEnd& end);

 private:
  void Upsert(Request request, service::CallContext context, std::string collection, std::shared_ptr<ReplyOnce> reply,
              const CallEnd& end);
  void Delete(const Request& request, service::CallContext context, std::string collection,
              std::shared_ptr<ReplyOnce> reply, const CallEnd& end);
  void Get(const Request& request, service::CallContext context, std::string collection,
           std::shared_ptr<ReplyOnce> reply, const CallEnd& end);
  void GetOne(service::CallContext context, const DocumentPath& path, std::shared_ptr<ReplyOnce> reply);
  void Scroll(const Request& request, service::CallContext context, std::string collection,
              std::shared_ptr<ReplyOnce> reply, const CallEnd& end);
  void Count(const Request& request, service::CallContext context, std::shared_ptr<ReplyOnce> reply,
             const CallEnd& end);
  void Facets(const Request& request, service::CallContext context, std::shared_ptr<ReplyOnce> reply,
              const CallEnd& end);
  // Answers a call that is refused before it reaches the service.
  static void Refuse(service::CallContext& context, ReplyOnce& reply, const absl::Status& status);

  service::DocumentApi* const documents_;
  TextPlaces* const text_places_;
  boost::asio::thread_pool* const pool_;
};

}  // namespace maxsim::http
