//! The optional arguments of the methods.

use crate::values::{Filter, Id};

/// Declares a struct of optional arguments with a setter for each. All of them are absent at first. The macro makes no
/// setter for the member `stored`.
macro_rules! options {
    ($(#[$about:meta])* $name:ident {
        $($(#[$doc:meta])* $member:ident: $given:ty => $type:ty,)*
        $(; stored $stored:ident: $stored_type:ty)?
    }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            $(pub(crate) $member: Option<$type>,)*
            $(pub(crate) $stored: Option<$stored_type>,)?
        }

        impl $name {
            /// Returns the defaults.
            #[must_use]
            pub fn new() -> Self {
                Self::default()
            }

            $(
                $(#[$doc])*
                #[must_use]
                #[allow(clippy::useless_conversion)] // of numbers, which convert into themselves
                pub fn $member(mut self, $member: $given) -> Self {
                    self.$member = Some($member.into());
                    self
                }
            )*
        }
    };
}

options! {
    /// Options of [`rerank`](crate::Client::rerank), [`rerank_many`](crate::Client::rerank_many) and
    /// [`search`](crate::Client::search). The page `docs/use/search.md` explains them.
    RankOptions {
        /// Number of results. Default 10.
        top_k: u64 => u64,
        /// Ranks to leave out before the first result. Default 0.
        offset: u64 => u64,
        /// Leaves out documents with lower scores.
        min_score: f32 => f32,
        /// Scores only documents that match.
        filter: impl Into<Filter> => Filter,
        /// Returns the best documents of each value of this keyword field. `top_k` then counts groups.
        group_by: impl Into<String> => String,
        /// Documents per group. Default 1.
        group_size: u64 => u64,
        /// Fills [`RankedDocument::payload`](crate::RankedDocument::payload). Default false.
        payloads: bool => bool,
        /// Fills [`RankedDocument::matches`](crate::RankedDocument::matches) and `similarities`. Default false.
        alignments: bool => bool,
        /// Divides scores by the number of query tokens. Default false.
        normalize: bool => bool,
        /// How a collection with codes is scanned.
        refinement: Refinement => Refinement,
        /// Returned as [`Ranking::request_id`](crate::Ranking::request_id). If absent, the server makes one.
        request_id: impl Into<String> => String,
        /// The answer must include the write with this sequence.
        min_sequence: u64 => u64,
        /// Used by `rerank_many` only: the number of requests in flight at a time. Default 8.
        concurrency: usize => usize,
        ; stored payload_fields: Vec<String>
    }
}

impl RankOptions {
    /// Fills [`RankedDocument::payload`](crate::RankedDocument::payload) with these members only.
    #[must_use]
    pub fn payload_fields<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.payload_fields = Some(names.into_iter().map(Into::into).collect());
        self
    }
}

options! {
    /// How a collection with codes is scanned (`docs/use/search.md`).
    #[derive(Eq)]
    Refinement {
        /// Number of documents that the scan chooses, to score them exactly. Default 1,000 + 20 (offset + top_k).
        documents: u64 => u64,
        /// With `require_proof`, the largest number of documents to score exactly. Default 16 times `documents`.
        budget: u64 => u64,
        /// Scores more documents, up to `budget`, until it is proven that no better document was left out. Default false.
        require_proof: bool => bool,
    }
}

options! {
    /// Options of [`delete`](crate::Client::delete) and [`delete_matching`](crate::Client::delete_matching).
    #[derive(Eq)]
    DeleteOptions {
        /// A document with a newer version is not deleted.
        version: u64 => u64,
        /// Used by `delete_matching` only: the filter must see the write with this sequence.
        min_sequence: u64 => u64,
    }
}

options! {
    /// Options of [`get`](crate::Client::get).
    #[derive(Eq)]
    GetOptions {
        /// Fills [`StoredDocument::tokens`](crate::StoredDocument::tokens). Default false.
        return_tokens: bool => bool,
        /// The answer must include the write with this sequence.
        min_sequence: u64 => u64,
    }
}

options! {
    /// Options of [`scroll`](crate::Client::scroll).
    #[derive(Eq)]
    ScrollOptions {
        /// Returns only documents that match.
        filter: impl Into<Filter> => Filter,
        /// Starts with the first id after this one.
        after: impl Into<Id> => Id,
        /// Documents per request, 1 to 1,000. Default 100.
        page_size: u64 => u64,
        /// Fills [`StoredDocument::payload`](crate::StoredDocument::payload). Default true.
        payloads: bool => bool,
        /// Fills [`StoredDocument::tokens`](crate::StoredDocument::tokens). Default false.
        return_tokens: bool => bool,
        /// Every page must include the write with this sequence.
        min_sequence: u64 => u64,
    }
}

options! {
    /// Options of [`count`](crate::Client::count).
    #[derive(Eq)]
    CountOptions {
        /// Counts only documents that match.
        filter: impl Into<Filter> => Filter,
        /// The answer must include the write with this sequence.
        min_sequence: u64 => u64,
    }
}

options! {
    /// Options of [`facets`](crate::Client::facets).
    #[derive(Eq)]
    FacetsOptions {
        /// Counts only documents that match.
        filter: impl Into<Filter> => Filter,
        /// Number of values. Default 10.
        limit: u64 => u64,
        /// The answer must include the write with this sequence.
        min_sequence: u64 => u64,
    }
}
