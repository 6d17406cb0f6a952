// Answers requests that clients made for other rerank services send before they rerank: /v1/models of Xinference and
// OpenAI, /v1/cluster/auth of Xinference, and /info of text-embeddings-inference. Each path also exists below /text.
// Internal to server/http.
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
  enum class Kind { kList, kOne, kInfo, kAuth };  // kAuth asks whether calls need a token
  Kind kind = Kind::kList;
  std::string name = {};  // for kOne
  bool is_text = false;   // the path is below /text
};

// Returns which of these requests a path is for, or nullopt for any other path.
std::optional<ModelPath> ParseModelPath(std::string_view path);

// The data that the answers are made from.
struct ModelSource {
  std::vector<v1::CollectionInfo> collections = {};
  const v1::EncoderInfo* encoder = nullptr;  // null if the server takes no texts
  service::RequestLimits limits = {};
  int max_requests = 0;
  bool needs_token = false;
  // If true, strings are texts even on paths without /text.
  bool root_documents_are_texts = false;
};

// Lists collections and the encoder's model as models. If strings are texts and there is an encoder, accepts any model
// name, as a rerank call does; otherwise answers 404 to an unknown name.
Response AnswerModels(const ModelPath& path, const ModelSource& source);

}  // namespace maxsim::http
