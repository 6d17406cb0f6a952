// Answers what clients of other services request before they rerank: /v1/models of Xinference and OpenAI,
// /v1/cluster/auth of Xinference, and /info of text-embeddings-inference. Each path also exists below /text. Internal
// to server/http.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "maxsim/v1/rerank.pb.h"
#include "server/http/transport/transport.h"
#include "server/service/call/limits.h"

namespace maxsim::http {

struct ModelPath {
  enum class Kind { kList, kOne, kInfo, kAuth };  // kAuth: do calls need a token?
  Kind kind = Kind::kList;
  std::string name = {};  // for kOne
  bool is_text = false;   // the path is below /text
};

// Returns the request about models that a path stands for, or nullopt for any other path.
std::optional<ModelPath> ParseModelPath(std::string_view path);

// The data that the answers are made from.
struct ModelSource {
  std::vector<v1::CollectionInfo> collections = {};
  const v1::EncoderInfo* encoder = nullptr;  // null if the server takes no texts
  service::RequestLimits limits = {};
  int max_requests = 0;
  bool needs_token = false;
  // Strings are texts even without /text.
  bool root_documents_are_texts = false;
};

// Lists collections and the encoder's model as models. Where strings are texts and there is an encoder, any model name
// is accepted, as in a rerank call; otherwise an unknown name gets 404.
Response AnswerModels(const ModelPath& path, const ModelSource& source);

}  // namespace maxsim::http
