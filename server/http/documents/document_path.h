// The paths of calls that write and read documents.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace maxsim::http {

enum class DocumentCall {
  kUpsert,  // PUT /v1/collections/NAME/documents
  kDelete,  // DELETE of the same
  kGetOne,  // GET or HEAD /v1/collections/NAME/documents/ID
  kGet,     // POST /v1/collections/NAME/documents/get
  kScroll,  // POST /v1/collections/NAME/documents/scroll
  kCount,   // POST /v1/count
  kFacets,  // POST /v1/facets
};

// The paths of calls that name their collection in the body. They take POST alone.
inline constexpr char kCountPath[] = "/v1/count";
inline constexpr char kFacetsPath[] = "/v1/facets";

struct DocumentPath {
  std::string collection;
  std::string id;  // "": the path of the documents
};

// Splits a path and decodes its name and id, which are percent-encoded. Returns nullopt for a path of another form, or
// if the encoding is invalid.
std::optional<DocumentPath> ParseDocumentPath(std::string_view path);

// Returns the call that a method of such a path is, or nullopt.
std::optional<DocumentCall> FindDocumentCall(std::string_view method, const DocumentPath& path);

// Returns the methods that such a path takes, as the header Allow has them.
std::string_view MethodsOf(const DocumentPath& path);

}  // namespace maxsim::http
