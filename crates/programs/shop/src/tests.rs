//! The shop with a real database.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::net::SocketAddr;
use std::time::Duration;

use fabricmark_bookstore::{Interaction, Mix, Scale, Shop, Workload, stock_after};
use fabricmark_plan::Engine;
use fabricmark_units::Nanos;
use tokio::net::TcpListener;

use crate::browse::{BrowserContext, Load, browse};
use crate::database::audit::audit;
use crate::database::instance::Instance;
use crate::database::{Database, fetch, load, sql};
use crate::payment::{self, Gateway};
use crate::program::Error;
use crate::server::Server;

const SHOP: Shop = Shop { scale: Scale { items: 1_000, browsers: 1 }, seed: 1, today: 20_000 };

fn free() -> SocketAddr {
    ([127, 0, 0, 1], fabricmark_testkit::free_port()).into()
}

/// A served shop of 1,000 books.
struct Served {
    database: Database,
    load: Load,
    _instance: Instance,
    _folder: tempfile::TempDir,
}

/// `None` if the database is not installed, which is reported as a skipped test.
async fn served(engine: Engine) -> Option<Served> {
    let folder = tempfile::tempdir().unwrap();
    let instance = match Instance::start(engine, folder.path(), free(), "pass").await {
        Err(missing @ Error::Missing { .. }) => {
            fabricmark_testkit::skip("the shop with a real database", &missing.to_string());
            return None;
        }
        started => started.unwrap(),
    };
    let database = Database::open(&instance.url, 8).await.unwrap();
    load::load(&database, SHOP, |_, _| ()).await.unwrap();
    let again = load::load(&database, SHOP, |_, _| ()).await.unwrap_err();
    assert!(again.to_string().contains("already has a shop"), "{again}");
    let gateway = Gateway::listen(free()).await.unwrap();
    let payment = payment::Client::new(gateway.address().unwrap(), &gateway.certificate).unwrap();
    tokio::spawn(gateway.serve());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let server = Server::new(database.clone(), Some(payment)).await.unwrap();
    tokio::spawn(server.serve(listener, pending()));
    let workload =
        Workload { mix: Mix::Ordering, scale: SHOP.scale, think: Nanos::from_millis(20) };
    let load = Load {
        at,
        browsers: 20,
        workload,
        arrivals_per_s: None,
        seed: 1,
        ramp_up: Duration::ZERO,
        window: Duration::from_secs(4),
        images: false,
    };
    Some(Served { database, load, _instance: instance, _folder: folder })
}

impl Served {
    /// Every confirmed order of the browsers is in the database once, and is consistent.
    async fn browsers_buy(&self) {
        let samples = browse(self.load, pending(), |_| ()).await.samples;
        let failed =
            samples.iter().filter_map(|sample| Some((sample.interaction, sample.error.as_ref()?)));
        assert_eq!(failed.collect::<Vec<_>>(), []);
        let bought =
            samples.iter().filter(|sample| sample.interaction == Interaction::BuyConfirm).count();
        assert!(bought > 10, "{bought}");
        let found = audit(&self.database).await.unwrap();
        assert_eq!((found.orders, &found.inconsistencies[..]), (bought as u64, &[][..]));
        for interaction in Interaction::ALL {
            // The rarest are one of 900.
            let is_rare = Mix::Ordering.published_percent(interaction) < 0.5;
            let is_there = samples.iter().any(|sample| sample.interaction == interaction);
            assert!(is_rare || is_there, "{interaction}");
        }
    }

    async fn stock(&self, item: i64) -> i64 {
        let find = sql!("SELECT stock FROM item WHERE id = "[1]);
        fetch!(Database, self.database, (i64,), find, item).await.unwrap()[0].0
    }

    /// A coordinator knows the password of the shop's user: it must not start programs or write files with it.
    async fn user_has_no_rights_outside_its_database(&self) {
        let refused = match &self.database {
            Database::MariaDb(pool) => {
                let write = "SELECT 1 INTO OUTFILE '/var/tmp/fabricmark-outfile'";
                sqlx::query(write).execute(pool).await.map(drop)
            }
            Database::PostgreSql(pool) => {
                let start = "COPY (SELECT 1) TO PROGRAM 'true'";
                sqlx::query(start).execute(pool).await.map(drop)
            }
        };
        let refused = refused.unwrap_err();
        let error = refused.as_database_error().unwrap();
        // 42501 is insufficient_privilege of PostgreSQL.
        let is_denied = error.message().starts_with("Access denied")
            || error.code().as_deref() == Some("42501");
        assert!(is_denied, "{refused}");
    }

    /// An order takes its copies from the stock, which is refilled, alike in both databases.
    async fn stock_is_refilled(&self) {
        let before = self.stock(7).await;
        let mut client = BrowserContext::new(self.load);
        let token = client.send("/book/7", &[]).await.unwrap();
        client.send("/cart", &[("token", &token), ("add", "7")]).await.unwrap();
        client.send("/cart", &[("token", &token), ("quantity-7", "99")]).await.unwrap();
        let sign_in = [("token", &token[..]), ("user", "OG"), ("password", "og")];
        let token = client.send("/buy", &sign_in).await.unwrap();
        let pay = [("token", &token[..]), ("card", "4111111111111111"), ("holder", "A Reader")];
        client.send("/confirm", &pay).await.unwrap();
        assert_eq!(self.stock(7).await, stock_after(before, 99), "of {before}");
    }

    /// Buyers of the same book wait for each other: the stock is as if they had come one after the other.
    async fn concurrent_buyers_share_the_last_copies(&self) {
        const BUYERS: usize = 8;
        const COPIES: i64 = 4;
        let mut expected = self.stock(9).await;
        for _ in 0..BUYERS {
            expected = stock_after(expected, COPIES);
        }
        let mut buyers = tokio::task::JoinSet::new();
        for _ in 0..BUYERS {
            let mut client = BrowserContext::new(self.load);
            buyers.spawn(async move {
                let token = client.send("/book/9", &[]).await?;
                client.send("/cart", &[("token", &token), ("add", "9")]).await?;
                let copies = COPIES.to_string();
                client.send("/cart", &[("token", &token), ("quantity-9", &copies)]).await?;
                let sign_in = [("token", &token[..]), ("user", "OG"), ("password", "og")];
                let token = client.send("/buy", &sign_in).await?;
                let pay =
                    [("token", &token[..]), ("card", "4111111111111111"), ("holder", "A Reader")];
                client.send("/confirm", &pay).await
            });
        }
        while let Some(bought) = buyers.join_next().await {
            bought.unwrap().unwrap();
        }
        assert_eq!(self.stock(9).await, expected);
        let found = audit(&self.database).await.unwrap();
        assert_eq!(found.inconsistencies, Vec::<String>::new());
    }

    /// A card that the bank declines buys nothing, and the cart stays.
    async fn a_declined_card_buys_nothing(&self) {
        let before = audit(&self.database).await.unwrap().orders;
        let mut client = BrowserContext::new(self.load);
        let token = client.send("/book/8", &[]).await.unwrap();
        client.send("/cart", &[("token", &token), ("add", "8")]).await.unwrap();
        let sign_in = [("token", &token[..]), ("user", "OG"), ("password", "og")];
        let token = client.send("/buy", &sign_in).await.unwrap();
        let pay = [("token", &token[..]), ("card", "4111111111111112"), ("holder", "A Reader")];
        let declined = client.send("/confirm", &pay).await.unwrap_err().to_string();
        assert!(declined.contains("402"), "{declined}");
        assert_eq!(audit(&self.database).await.unwrap().orders, before);
        assert_eq!(client.fetch("/cart", &[]).await.unwrap().cart, [8]);
    }

    /// Forged, malformed and oversized requests are refused, with their status.
    async fn forged_requests_are_refused(&self) {
        let mut client = BrowserContext::new(self.load);
        let token = client.send("/book/7", &[]).await.unwrap();
        let token = &token[..];
        let long = "x".repeat(100_000);
        for (path, fields, status) in [
            // Without the token, or with that of another session.
            ("/cart", &[("add", "7")][..], 403),
            ("/cart", &[("token", "00000000000000000000000000000000"), ("add", "7")], 403),
            ("/cart", &[("token", token), ("add", "1001")], 404),
            ("/cart", &[("token", token), ("quantity-7", "100")], 422),
            ("/cart", &[("token", token), ("quantity-7", "-1")], 422),
            ("/cart", &[("token", token), ("x", &long)], 422),
            ("/buy", &[("token", token), ("user", "OG' OR '1'='1"), ("password", "x")], 403),
            ("/buy", &[("token", token), ("user", "OG"), ("password", "wrong")], 403),
            ("/buy", &[("token", token), ("first-name", "A")], 422),
            ("/confirm", &[("token", token), ("card", "4111111111111111"), ("holder", "A")], 403),
            ("/orders", &[("token", token), ("user", "OG"), ("password", "")], 403),
            ("/admin/7", &[("token", token), ("price", "1e9")], 422),
            ("/book/0", &[], 404),
            ("/book/seven", &[], 404),
            ("/new/24", &[], 404),
            ("/search/results?by=title", &[], 404),
            ("/search/results?by=price&for=1", &[], 404),
        ] {
            let refused = client.send(path, fields).await.unwrap_err().to_string();
            assert!(refused.contains(&status.to_string()), "{path} {fields:?}: {refused}");
        }
        // A cookie of another key, or with another customer.
        let own = client.cookie().unwrap().to_owned();
        let (signed, mac) = own.rsplit_once('.').unwrap();
        let mut parts: Vec<_> = signed.split('.').collect();
        parts[1] = "1";
        for forged in [
            format!("{}.{mac}", parts.join(".")),
            own.replace(&mac[..4], "0000"),
            "session=x".to_owned(),
        ] {
            client.set_cookie(&forged);
            let pay = [("token", token), ("card", "4111111111111111"), ("holder", "A")];
            let refused = client.send("/confirm", &pay).await.unwrap_err().to_string();
            assert!(refused.contains("403"), "{forged}: {refused}");
        }
    }

    /// A cookie that was taken from a client buys nothing after the client has signed out.
    async fn a_stolen_session_ends_with_its_owners(&self) {
        let mut client = BrowserContext::new(self.load);
        let token = client.send("/book/5", &[]).await.unwrap();
        client.send("/cart", &[("token", &token), ("add", "5")]).await.unwrap();
        let sign_in = [("token", &token[..]), ("user", "OG"), ("password", "og")];
        let token = client.send("/buy", &sign_in).await.unwrap();
        let stolen = client.cookie().unwrap().to_owned();
        client.send("/sign-out", &[("token", &token)]).await.unwrap();
        client.set_cookie(&stolen);
        let pay = [("token", &token[..]), ("card", "4111111111111111"), ("holder", "A Reader")];
        let refused = client.send("/confirm", &pay).await.unwrap_err().to_string();
        assert!(refused.contains("403"), "{refused}");
    }

    /// A book is related to those that its buyers have bought most.
    async fn related_books_follow_from_orders(&self) {
        let related = async || {
            let find = sql!("SELECT other FROM related WHERE item = " [1] " ORDER BY place");
            let found = fetch!(Database, self.database, (i64,), find, 11_i64).await.unwrap();
            found.into_iter().map(|row| row.0).collect::<Vec<_>>()
        };
        let before = related().await;
        let mut client = BrowserContext::new(self.load);
        let token = client.send("/admin/11", &[]).await.unwrap();
        client.send("/admin/11", &[("token", &token), ("price", "9.99")]).await.unwrap();
        let find = sql!(
            "SELECT o.customer, l.item, l.quantity FROM order_line l \
                         JOIN orders o ON o.id = l.orders WHERE l.number > "[1]
        );
        type Line = (i64, i64, i64);
        let lines = fetch!(Database, self.database, Line, find, 0_i64).await.unwrap();
        // The shop has fewer than 10,000 orders.
        let buyers: BTreeSet<i64> =
            lines.iter().filter(|(_, item, _)| *item == 11).map(|line| line.0).collect();
        let mut copies: BTreeMap<i64, i64> = BTreeMap::new();
        for (customer, item, quantity) in lines {
            if item != 11 && buyers.contains(&customer) {
                *copies.entry(item).or_default() -= quantity;
            }
        }
        let mut most: Vec<(i64, i64)> = copies.into_iter().map(|(item, sum)| (sum, item)).collect();
        most.sort_unstable();
        let mut expected: Vec<i64> = most.into_iter().map(|(_, item)| item).take(5).collect();
        expected.extend(
            before.into_iter().filter(|other| !expected.contains(other)).collect::<Vec<_>>(),
        );
        expected.truncate(5);
        assert_eq!(related().await, expected);
    }

    /// 100 different books fit into a cart.
    async fn carts_are_bounded(&self) {
        let mut client = BrowserContext::new(self.load);
        let token = client.send("/", &[]).await.unwrap();
        for item in 1..=100 {
            client.send("/cart", &[("token", &token), ("add", &item.to_string())]).await.unwrap();
        }
        let refused = client.send("/cart", &[("token", &token), ("add", "101")]).await.unwrap_err();
        assert!(refused.to_string().contains("422"), "{refused}");
        client.send("/cart", &[("token", &token), ("add", "100")]).await.unwrap();
    }
}

async fn the_shop_sells_refuses_and_adds_up(engine: Engine) {
    let Some(shop) = served(engine).await else { return };
    shop.browsers_buy().await;
    shop.stock_is_refilled().await;
    shop.user_has_no_rights_outside_its_database().await;
    shop.concurrent_buyers_share_the_last_copies().await;
    shop.a_declined_card_buys_nothing().await;
    shop.forged_requests_are_refused().await;
    shop.a_stolen_session_ends_with_its_owners().await;
    shop.related_books_follow_from_orders().await;
    shop.carts_are_bounded().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shop_sells_refuses_and_adds_up_in_mariadb() {
    the_shop_sells_refuses_and_adds_up(Engine::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shop_sells_refuses_and_adds_up_in_postgresql() {
    the_shop_sells_refuses_and_adds_up(Engine::PostgreSql).await;
}
