// The paths of calls about one collection.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace maxsim::http {

enum class CollectionCall {
  kCreate,    // PUT /v1/collections/NAME
  kCompact,   // POST /v1/collections/NAME/compact
  kSnapshot,  // POST /v1/collections/NAME/snapshot
  kLayout,    // PUT /v1/collections/NAME/layout
};

struct CollectionPath {
  std::string name;
  std::string action;  // "compact", "snapshot", "layout", or "" for the path of the collection itself
};

// Splits a path and decodes its name, which is percent-encoded. Returns nullopt for a path of another form, or if the
// encoding is invalid.
std::optional<CollectionPath> ParseCollectionPath(std::string_view path);

// Returns NAME if `path` is /v1/collections/NAME, for which GET returns a description; else nullopt.
std::optional<std::string> CollectionOf(std::string_view path);

// Returns what a request with this method and path asks for (to create, compact or snapshot the collection, or to set
// its layout), or nullopt if it asks for none of these.
std::optional<CollectionCall> FindCollectionCall(std::string_view method, const CollectionPath& path);

// Returns the methods that a path takes, as text for the header Allow. If `changes` is false, returns only the methods
// that read, or "" if the path takes none.
std::string_view MethodsOf(const CollectionPath& path, bool changes);

}  // namespace maxsim::http
