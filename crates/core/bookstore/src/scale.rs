//! How large a shop is.

/// Size of a shop. The sizes of the other tables follow from it, as in the
/// University of Wisconsin's implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Books, at most 10,000,000.
    pub items: u32,
    /// Emulated browsers for which the shop has customers, at most 100,000.
    pub browsers: u32,
}

impl Scale {
    /// Most books of a shop.
    pub const ITEMS_MAX: u32 = 10_000_000;
    /// Most browsers of a shop.
    pub const BROWSERS_MAX: u32 = 100_000;

    /// Authors.
    pub fn authors(self) -> u32 {
        self.items.div_ceil(4)
    }

    /// Customers.
    pub fn customers(self) -> u32 {
        2880 * self.browsers
    }

    /// Addresses.
    pub fn addresses(self) -> u32 {
        2 * self.customers()
    }

    /// Orders.
    pub fn orders(self) -> u32 {
        self.customers() / 10 * 9
    }

    /// Keys of titles: searches for a title ask for one of them, which five books share.
    pub fn title_keys(self) -> u32 {
        self.items.div_ceil(5)
    }

    /// Keys of last names of authors.
    pub fn author_keys(self) -> u32 {
        self.items.div_ceil(10)
    }
}
