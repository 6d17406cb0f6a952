// Answers the calls that write and read documents. It is internal to server/http.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <boost/asio/thread_pool.hpp>

#include "server/http/call_end.h"
#include "server/http/document_path.h"
#include "server/http/transport.h"
#include "server/service/api.h"
#include "server/service/auth.h"

namespace maxsim::http {

// Returns the document call that a request is, or nullopt.
std::optional<DocumentCall> DocumentCallOf(const Request& request);

// Return what the metrics and the traces call it, and what a token must be for.
const char* MethodOf(DocumentCall call);
std::string_view SpanNameOf(DocumentCall call);
service::Scope ScopeOf(DocumentCall call);

// The class is thread-safe. It must outlive its calls, and so must what it is made of.
class DocumentCalls {
 public:
  // `take_text_place` gives a place for a call with texts, or null where too many are in progress; `text_error` is what
  // such a call is told.
  DocumentCalls(service::DocumentApi* documents, boost::asio::thread_pool* pool,
                std::function<std::shared_ptr<const void>()> take_text_place, std::function<absl::Status()> text_error)
      : documents_(documents),
        pool_(pool),
        take_text_place_(std::move(take_text_place)),
        text_error_(std::move(text_error)) {}

  // Answers a request that is a document call. `context` says whence it came; its method and cancellation are set here.
  void Handle(Request request, service::CallContext context, std::shared_ptr<ReplyOnce> reply, const CallEnd& end);

 private:
  void Upsert(Request request, service::CallContext context, std::string collection, std::shared_ptr<ReplyOnce> reply,
              const CallEnd& end);
  void Delete(const Request& request, service::CallContext context, std::string collection,
              std::shared_ptr<ReplyOnce> reply, const CallEnd& end);
  void Get(const Request& request, service::CallContext context, std::string collection,
           std::shared_ptr<ReplyOnce> reply, const CallEnd& end);
  void GetOne(service::CallContext context, const DocumentPath& path, std::shared_ptr<ReplyOnce> reply);
  // For calls that never came to the service, which would have counted them.
  Response CountedError(const service::CallContext& context, const absl::Status& status) const;

  service::DocumentApi* const documents_;
  boost::asio::thread_pool* const pool_;
  const std::function<std::shared_ptr<const void>()> take_text_place_;
  const std::function<absl::Status()> text_error_;
};

}  // namespace maxsim::http
