//! What an emulated browser reads in a page.

/// The parts of a page on which the next request depends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Addresses of images, as written.
    pub images: Vec<String>,
    /// Numbers of the books that the page links to.
    pub books: Vec<u32>,
    /// Numbers of the books in the cart, on pages that show it.
    pub cart: Vec<u32>,
    /// The token with which forms of the page are sent.
    pub token: Option<String>,
    /// User name of the customer, on the page of a Buy Request.
    pub user: Option<String>,
}

impl Page {
    /// Reads a page of the shop. Everything else in it is ignored.
    pub fn read(html: &str) -> Self {
        let number = |text: &str| text.parse().ok();
        Self {
            images: values(html, "<img src=\"").map(str::to_owned).collect(),
            books: values(html, "href=\"/book/").filter_map(number).collect(),
            cart: values(html, "name=\"quantity-").filter_map(number).collect(),
            token: values(html, "name=\"token\" value=\"").next().map(str::to_owned),
            user: values(html, "data-user=\"").next().map(str::to_owned),
        }
    }
}

/// The texts between each `before` and the next quotation mark.
fn values<'a>(html: &'a str, before: &'a str) -> impl Iterator<Item = &'a str> {
    html.split(before).skip(1).filter_map(|rest| rest.split_once('"').map(|(value, _)| value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_books_cart_and_token_are_found() {
        let html = "<a href=\"/book/17\"><img src=\"/image/17.jpg\" alt=\"\"></a><a href=\"/book/x\">\
                    <input name=\"quantity-3\" value=\"1\"><input type=\"hidden\" name=\"token\" value=\"ab\">\
                    <b data-user=\"WU2881\">WU2881</b>";
        let page = Page {
            images: vec!["/image/17.jpg".to_owned()],
            books: vec![17],
            cart: vec![3],
            token: Some("ab".to_owned()),
            user: Some("WU2881".to_owned()),
        };
        assert_eq!(Page::read(html), page);
        assert_eq!(Page::read("<a href=\"/book/1"), Page::default());
    }
}
