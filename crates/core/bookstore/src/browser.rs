//! An emulated browser: a sequence of user sessions, each with requests and think times.

use fabricmark_units::{Instant, Nanos, Stream};

use crate::{
    COUNTRIES, Interaction, Mix, Page, SHIPPINGS, SUBJECTS, Scale, last_name, nurand_customer,
    nurand_item, password, title_word, user_name,
};

/// The next page that a browser asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// The web interaction.
    pub interaction: Interaction,
    /// Think time before the request.
    pub think: Nanos,
    /// Whether it is the first request of a session: the client has no cookies, cached images and open connections.
    pub starts_session: bool,
    /// Request target: path and query (RFC 9112, section 3.2.1).
    pub path: String,
    /// Fields of the form in a POST request; `None` for GET.
    pub form: Option<Vec<(String, String)>>,
}

/// The workload of a browser.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// Mix of web interactions.
    pub mix: Mix,
    /// Size of the shop.
    pub scale: Scale,
    /// Mean of the think time, which is exponential and at most ten times as long (TPC-W 1.8, clause 5.3.2.1: 7 s).
    pub think: Nanos,
}

/// Mean length of a session, which is exponential and at most four times as long (TPC-W 1.8, clause 6.1.9.2).
const SESSION: Nanos = Nanos::from_secs(15 * 60);

/// Share of sessions of customers whom the shop knows, in percent (University of Wisconsin).
const KNOWN_PERCENT: u64 = 80;

/// An emulated browser (TPC-W's EB).
#[derive(Debug)]
pub struct Browser {
    workload: Workload,
    random: Stream,
    at: Option<Interaction>,
    /// When the session ends, at the next visit of Home.
    session_ends: Instant,
    user: User,
    /// Book of the page, if it is about one.
    book: u32,
}

#[derive(Debug)]
enum User {
    Known(u32),
    /// Registers when needed.
    New,
    /// Has registered with this password in the request that the next page answers.
    Registering {
        password: String,
    },
    /// Signs in as any other customer.
    Registered {
        name: String,
        password: String,
    },
}

impl Browser {
    /// The browser `number` of a run.
    pub fn new(workload: Workload, seed: u64, number: u32) -> Self {
        let random = Stream::new(seed, &format!("browser {number}"));
        let (at, session_ends, user) = (None, Instant(0), User::New);
        Self { workload, random, at, session_ends, user, book: 1 }
    }

    /// The request that follows `page`, which was complete at `now`; `None` for a page that failed: a new session begins.
    pub fn next(&mut self, now: Instant, page: Option<&Page>) -> PageRequest {
        let empty = Page::default();
        let next = match (self.at, page) {
            (Some(at), Some(_)) => self.workload.mix.next(at, &mut self.random),
            _ => Interaction::Home,
        };
        let is_over = next == Interaction::Home && now >= self.session_ends;
        let starts_session = self.at.is_none() || page.is_none() || is_over;
        let think = self.think();
        if let Some(name) = page.and_then(|page| page.user.clone()) {
            self.user = match std::mem::replace(&mut self.user, User::New) {
                User::Registering { password } => User::Registered { name, password },
                user => user,
            };
        }
        if starts_session {
            self.begin(now);
        }
        let from = self.at.replace(next);
        let (path, form) = self.request(next, from, page.unwrap_or(&empty));
        PageRequest { interaction: next, think, starts_session, path, form }
    }

    /// The first one, too, so that the load has its rate from the start. Uniform times up to 20 s (University of Wisconsin) would
    /// begin with less and then exceed it by a third.
    fn think(&mut self) -> Nanos {
        let mean = self.workload.think.0 as f64;
        Nanos((mean * self.random.exponential().min(10.0)) as u64)
    }

    fn begin(&mut self, now: Instant) {
        let length = SESSION.0 as f64 * self.random.exponential().min(4.0);
        self.session_ends = Instant(now.0.saturating_add(length as u64));
        self.user = if self.random.below(100) < KNOWN_PERCENT {
            User::Known(nurand_customer(self.workload.scale.customers(), &mut self.random))
        } else {
            User::New
        };
    }

    fn request(
        &mut self,
        next: Interaction,
        from: Option<Interaction>,
        page: &Page,
    ) -> (String, Option<Vec<(String, String)>>) {
        let get = |path: String| (path, None);
        match next {
            Interaction::Home => get("/".to_owned()),
            Interaction::NewProducts => get(format!("/new/{}", self.subject())),
            Interaction::BestSellers => get(format!("/best/{}", self.subject())),
            Interaction::ProductDetail => {
                self.book = self.choose(&page.books);
                get(format!("/book/{}", self.book))
            }
            Interaction::SearchRequest => get("/search".to_owned()),
            Interaction::SearchResults => get(self.search()),
            Interaction::ShoppingCart => self.cart(from, page),
            Interaction::CustomerRegistration => get("/register".to_owned()),
            Interaction::BuyRequest => ("/buy".to_owned(), Some(self.identify(page))),
            Interaction::BuyConfirm => ("/confirm".to_owned(), Some(self.pay(page))),
            Interaction::OrderInquiry => get("/orders".to_owned()),
            Interaction::OrderDisplay => {
                let customer = match self.user {
                    User::Known(customer) => customer,
                    _ => nurand_customer(self.workload.scale.customers(), &mut self.random),
                };
                (
                    "/orders".to_owned(),
                    Some(signed(
                        page,
                        [("user", user_name(customer)), ("password", password(customer))],
                    )),
                )
            }
            Interaction::AdminRequest => get(format!("/admin/{}", self.book)),
            Interaction::AdminConfirm => {
                let price = format!("{}.{:02}", 1 + self.random.below(99), self.random.below(100));
                (format!("/admin/{}", self.book), Some(signed(page, [("price", price)])))
            }
        }
    }

    fn subject(&mut self) -> u64 {
        self.random.below(SUBJECTS.len() as u64)
    }

    /// One of the books of a page, or any.
    fn choose(&mut self, books: &[u32]) -> u32 {
        match books.len() {
            0 => nurand_item(self.workload.scale.items, &mut self.random),
            many => books[self.random.below(many as u64) as usize],
        }
    }

    /// By author, title or subject, each as often.
    fn search(&mut self) -> String {
        let scale = self.workload.scale;
        let mut below = |bound: u32| self.random.below(u64::from(bound)) as u32;
        let (by, what) = match below(3) {
            0 => ("author", last_name(below(scale.author_keys()))),
            1 => ("title", title_word(below(scale.title_keys()))),
            _ => ("subject", below(SUBJECTS.len() as u32).to_string()),
        };
        format!("/search/results?by={by}&for={what}")
    }

    /// Adds the book of the page, changes quantities, or looks at the cart. The cart of a first look is never empty.
    fn cart(
        &mut self,
        from: Option<Interaction>,
        page: &Page,
    ) -> (String, Option<Vec<(String, String)>>) {
        if from != Some(Interaction::ShoppingCart) {
            let book =
                if from == Some(Interaction::ProductDetail) { self.book } else { self.choose(&[]) };
            return ("/cart".to_owned(), Some(signed(page, [("add", book.to_string())])));
        }
        let mut fields = signed(page, []);
        if let [only] = page.cart[..] {
            fields.push((format!("quantity-{only}"), (1 + self.random.below(10)).to_string()));
        } else {
            for (place, book) in page.cart.iter().enumerate() {
                if self.random.below(2) == 0 {
                    // The first book stays, so that there is something to buy.
                    let least = u64::from(place == 0);
                    let quantity = least + self.random.below(10 - least);
                    fields.push((format!("quantity-{book}"), quantity.to_string()));
                }
            }
        }
        ("/cart".to_owned(), Some(fields))
    }

    /// Signs in, or registers.
    fn identify(&mut self, page: &Page) -> Vec<(String, String)> {
        match &self.user {
            &User::Known(customer) => {
                signed(page, [("user", user_name(customer)), ("password", password(customer))])
            }
            User::Registered { name, password } => {
                signed(page, [("user", name.clone()), ("password", password.clone())])
            }
            User::New | User::Registering { .. } => {
                let mut below = |bound: u64| self.random.below(bound);
                let fields = [
                    ("first-name", title_word(below(1_000) as u32)),
                    ("last-name", last_name(below(1_000) as u32)),
                    ("street", format!("{} Harbour Road", 1 + below(999))),
                    ("city", title_word(below(1_000) as u32)),
                    ("postal-code", format!("{:05}", below(100_000))),
                    ("country", (1 + below(COUNTRIES.len() as u64)).to_string()),
                    ("email", "reader@example.com".to_owned()),
                    ("new-password", format!("{:010}", below(10_000_000_000))),
                ];
                let [.., (_, password)] = &fields;
                self.user = User::Registering { password: password.clone() };
                signed(page, fields)
            }
        }
    }

    fn pay(&mut self, page: &Page) -> Vec<(String, String)> {
        let shipping = self.random.below(SHIPPINGS.len() as u64);
        // The number that card schemes publish for tests.
        let card = "4111111111111111";
        signed(
            page,
            [
                ("shipping", shipping.to_string()),
                ("card", card.to_owned()),
                ("holder", "A Reader".to_owned()),
                ("expires", "12/40".to_owned()),
            ],
        )
    }
}

/// Fields of a form with the page's token.
fn signed<const N: usize>(page: &Page, fields: [(&str, String); N]) -> Vec<(String, String)> {
    let token = page.token.iter().map(|token| ("token".to_owned(), token.clone()));
    token.chain(fields.into_iter().map(|(name, value)| (name.to_owned(), value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKLOAD: Workload = Workload {
        mix: Mix::Shopping,
        scale: Scale { items: 1_000, browsers: 10 },
        think: Nanos::from_secs(7),
    };

    /// Visits of a browser whose pages arrive at once.
    fn visits(count: usize) -> Vec<PageRequest> {
        let mut browser = Browser::new(WORKLOAD, 1, 0);
        let page = Page { books: vec![5, 6], token: Some("t".to_owned()), ..Page::default() };
        let mut now = Instant(0);
        let mut visits = vec![browser.next(now, None)];
        while visits.len() < count {
            now = now + visits[visits.len() - 1].think;
            visits.push(browser.next(now, Some(&page)));
        }
        visits
    }

    #[test]
    fn visits_have_the_shares_of_the_mix() {
        let visits = visits(200_000);
        for interaction in Interaction::ALL {
            let count = visits.iter().filter(|visit| visit.interaction == interaction).count();
            let (percent, published) =
                (count as f64 / 2e3, WORKLOAD.mix.published_percent(interaction));
            // As for drawn pages: ten standard deviations of independent draws.
            let bound = 10.0 * (published * (100.0 - published) / 2e5).sqrt();
            assert!((percent - published).abs() < bound, "{interaction}: {percent}");
        }
    }

    #[test]
    fn think_times_have_a_mean_of_7_s_and_end_at_70_s() {
        let thinks: Vec<u64> = visits(100_000).iter().skip(1).map(|visit| visit.think.0).collect();
        let mean_s = thinks.iter().sum::<u64>() as f64 / thinks.len() as f64 / 1e9;
        // Five standard errors of an exponential mean.
        assert!((mean_s - 7.0).abs() < 5.0 * 7.0 / 1e5_f64.sqrt(), "{mean_s} s");
        assert!(thinks.iter().all(|think| *think <= 70_000_000_000));
    }

    #[test]
    fn sessions_last_a_quarter_of_an_hour_on_average_and_begin_at_home() {
        let visits = visits(400_000);
        let firsts: Vec<_> = visits.iter().filter(|visit| visit.starts_session).collect();
        assert!(firsts.iter().all(|visit| visit.interaction == Interaction::Home));
        let visits_each = visits.len() as f64 / firsts.len() as f64;
        // 15 min are 129 visits, less those above 60 min, plus those until the next visit of Home.
        assert!((120.0..150.0).contains(&visits_each), "{visits_each}");
    }

    #[test]
    fn a_page_that_failed_begins_a_new_session() {
        let mut browser = Browser::new(WORKLOAD, 1, 0);
        browser.next(Instant(0), None);
        let visit = browser.next(Instant(1), None);
        assert!(visit.starts_session && visit.interaction == Interaction::Home, "{visit:?}");
    }

    #[test]
    fn a_new_customer_registers_once_in_a_session() {
        let workload = Workload { mix: Mix::Ordering, ..WORKLOAD };
        let mut browser = Browser::new(workload, 1, 0);
        let page = Page { user: Some("WU2881".to_owned()), ..Page::default() };
        let (mut registered, mut as_user, mut now) = (0, 0, Instant(0));
        for _ in 0..50_000 {
            let visit = browser.next(now, Some(&page));
            now = now + visit.think;
            registered = if visit.starts_session { 0 } else { registered };
            let fields = visit.form.unwrap_or_default();
            let has = |name: &str, value: &str| {
                fields.iter().any(|(known, is)| known == name && (value.is_empty() || is == value))
            };
            registered += usize::from(has("first-name", ""));
            as_user += usize::from(has("user", "WU2881") && has("password", ""));
            assert!(registered < 2, "{fields:?}");
        }
        assert!(as_user > 100, "{as_user}");
    }

    #[test]
    fn forms_carry_the_token_of_their_page() {
        for visit in visits(10_000) {
            if let Some(form) = visit.form {
                assert_eq!(form[0], ("token".to_owned(), "t".to_owned()), "{}", visit.path);
            }
        }
    }

    #[test]
    fn no_change_empties_the_cart() {
        let mut browser = Browser::new(WORKLOAD, 1, 0);
        let page = Page { cart: vec![3, 4], ..Page::default() };
        let mut changes = 0;
        for _ in 0..50_000 {
            let visit = browser.next(Instant(0), Some(&page));
            let fields = visit.form.unwrap_or_default();
            let zeros =
                fields.iter().filter(|(name, value)| name.starts_with("quantity-") && value == "0");
            assert!(zeros.count() < 2, "{fields:?}");
            changes += usize::from(fields.iter().any(|(name, _)| name == "quantity-4"));
        }
        assert!(changes > 50, "{changes}");
    }

    #[test]
    fn browsers_of_one_seed_differ_from_each_other_and_not_from_themselves() {
        let of = |number| {
            let mut browser = Browser::new(WORKLOAD, 7, number);
            (0..50).map(|_| browser.next(Instant(0), Some(&Page::default()))).collect::<Vec<_>>()
        };
        assert_eq!(of(3), of(3));
        assert_ne!(of(3), of(4));
    }
}
