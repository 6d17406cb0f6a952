//! The iterator over the documents of a collection.

use std::collections::VecDeque;

use crate::answers::read_stored;
use crate::bodies::Body;
use crate::client::{documents_path, Client};
use crate::error::Error;
use crate::options::ScrollOptions;
use crate::results::StoredDocument;
use crate::values::{Filter, Id};

/// An iterator over the documents of a collection in the order of their ids, made by [`Client::scroll`]. It reads a
/// page at a time, and ends after an error. A document written in the meantime is returned if its id comes after the
/// last id read.
#[derive(Debug)]
pub struct Scroll {
    client: Client,
    collection: String,
    options: ScrollOptions,
    page: VecDeque<StoredDocument>,
    has_more: bool,
}

impl Scroll {
    pub(crate) fn new(client: Client, collection: &str, options: &ScrollOptions) -> Self {
        let (collection, options) = (collection.to_string(), options.clone());
        Self { client, collection, options, page: VecDeque::new(), has_more: true }
    }

    fn read_page(&mut self) -> Result<(), Error> {
        self.has_more = false; // unless the answer says otherwise
        let options = &self.options;
        let body = Body::default()
            .with_option("filter", options.filter.as_ref().map(Filter::to_json))
            .with_option("after", options.after.as_ref().map(Id::to_json))
            .with_option("limit", options.page_size)
            .with("return_payloads", options.payloads.unwrap_or(true))
            .with_option("return_tokens", options.return_tokens)
            .with_option("min_sequence", options.min_sequence);
        let path = documents_path(&self.collection, "/scroll")?;
        let (page, has_more) = read_stored(self.client.call("POST", &path, &body.into_text())?)?;
        if let Some(last) = page.documents.last() {
            self.options.after = Some(last.id.clone());
            self.has_more = has_more;
        }
        self.page = page.documents.into();
        Ok(())
    }
}

impl Iterator for Scroll {
    type Item = Result<StoredDocument, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.page.is_empty() && self.has_more {
            if let Err(error) = self.read_page() {
                return Some(Err(error));
            }
        }
        self.page.pop_front().map(Ok)
    }
}

impl std::iter::FusedIterator for Scroll {}
