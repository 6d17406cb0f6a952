// The paths of calls that write and read documents.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace maxsim::http {

enum class DocumentCall {
  kUpsert,  // PUT /v1/collections/NAME/documents
  kDelete,  // DELETE /v1/collections/NAME/documents
  kGetOne,  // GET or HEAD /v1/collections/NAME/documents/ID
  kGet,     // POST /v1/collections/NAME/documents/get
  kScroll,  // POST /v1/collections/NAME/documents/scroll
  kCount,   // POST /v1/count
  kFacets,  // POST /v1/facets
};

// The paths of calls that name their collection in the body. They take only POST.
inline constexpr char kCountPath[] = "/v1/count";
inline constexpr char kFacetsPath[] = "/v1/facets";

struct DocumentPath {
  std::string collection;
  std::string id;  // "" if the path names all documents
};

// Splits a path and decodes its name and id, which are percent-encoded. Returns nullopt for a path of another form, or
// if the encoding is invalid.
std::optional<DocumentPath> ParseDocumentPath(std::string_view path);

// Returns the call for a method and a path, or nullopt if the path does not take the method.
std::optional<DocumentCall> FindDocumentCall(std::string_view method, const DocumentPath& path);

// Returns the methods that a path takes, in the form of the header Allow.
std::string_view MethodsOf(const DocumentPath& path);

}  // namespace maxsim::http
