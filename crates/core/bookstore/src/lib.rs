//! A bookstore workload derived from TPC-W, not comparable with published TPC results.
//!
//! [`Mix`] says which page a user visits next, [`Browser`] which requests that makes, [`Scale`] how large the shop is,
//! and [`Shop`] what is in its tables: each row is a function of a seed and the row's number. Nothing here does I/O.
//!
//! Facts are from the specification of TPC-W, version 1.8 (19 February 2002), as quoted by code that cites its clauses
//! (the University of Wisconsin's Java implementation and a results script derived from it).

mod browser;
mod interaction;
mod mix;
mod page;
mod scale;
mod shop;
mod skew;
mod word;

pub use browser::{Behaviour, Browser, Visit};
pub use interaction::Interaction;
pub use mix::Mix;
pub use page::Page;
pub use scale::Scale;
pub use shop::{
    Address, Author, BINDINGS, CARDS, COUNTRIES, Customer, Item, Line, Order, SHIPPINGS, STATES,
    SUBJECTS, Shop, tax_cents,
};
pub use skew::{of_customers, of_items};
pub use word::{last_name, password, title_word, user_name};
