//! A bookstore workload derived from TPC-W, not comparable with published TPC results.
//!
//! [`Mix`] is the Markov chain of web interactions, [`Browser`] an emulated browser that walks it, [`Scale`] the size of the
//! shop, and [`Shop`] the rows of its tables, each a function of a seed and the row's number. [`predict`] is a model of the tiers.
//! Nothing here does I/O.
//!
//! Facts are from the specification of TPC-W, version 1.8 (19 February 2002), as quoted by code that cites its clauses
//! (the University of Wisconsin's Java implementation and a results script derived from it).

mod browser;
mod interaction;
mod mix;
mod mva;
mod page;
mod scale;
mod shop;
mod skew;
mod word;

pub use browser::{Browser, PageRequest, Workload};
pub use interaction::Interaction;
pub use mix::Mix;
pub use mva::{Prediction, Station, capacity_per_s, predict};
pub use page::Page;
pub use scale::Scale;
pub use shop::{
    Address, Author, BINDINGS, CARDS, COUNTRIES, COVERS, Customer, Item, Line, Order, SHIPPINGS,
    STATES, SUBJECTS, Shop, cover_kib, shipping_cents, stock_after, tax_cents,
};
pub use skew::{nurand_customer, nurand_item};
pub use word::{last_name, password, title_word, user_name};
