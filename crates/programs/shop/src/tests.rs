//! The shop with a real database, visited by emulated browsers.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fabricmark_bookstore::{Behaviour, Interaction, Mix, Scale, Shop};
use fabricmark_units::Nanos;

use crate::browse::{Load, browse};
use crate::database::Database;
use crate::database::audit::audit;
use crate::database::load::load;
use crate::database::private::{Error, Instance, Kind};
use crate::server::Server;

const SCALE: Scale = Scale { items: 1_000, browsers: 1 };

fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

async fn users_of_all_kinds_buy_and_the_orders_add_up(kind: Kind) {
    let folder = tempfile::tempdir().unwrap();
    let instance = match Instance::start(kind, folder.path(), free().port()).await {
        Err(missing @ Error::Missing { .. }) => {
            fabricmark_testkit::skip("the shop with a real database", &missing.to_string());
            return;
        }
        started => started.unwrap(),
    };
    let database = Database::open(&instance.place, 8).await.unwrap();
    load(&database, Shop { scale: SCALE, seed: 1, today: 20_000 }, |_, _| ()).await.unwrap();
    let at = free();
    let server = Server::new(database.clone()).await.unwrap();
    let serving = tokio::spawn(server.serve(at, std::future::pending()));
    let behaviour = Behaviour { mix: Mix::Ordering, scale: SCALE, think: Nanos::from_millis(20) };
    let load = Load {
        at,
        browsers: 20,
        behaviour,
        seed: 1,
        ramp_up: Duration::from_millis(500),
        measure: Duration::from_secs(4),
        ramp_down: Duration::ZERO,
        images: false,
    };
    let samples = browse(load, Arc::new(AtomicBool::new(false))).await;
    serving.abort();
    let errors: Vec<_> = samples
        .iter()
        .filter_map(|sample| Some((sample.interaction, sample.error.as_ref()?)))
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    let bought =
        samples.iter().filter(|sample| sample.interaction == Interaction::BuyConfirm).count();
    let found = audit(&database).await.unwrap();
    assert!(bought > 10, "{bought}");
    assert_eq!((found.orders, &found.defects[..]), (bought as i64, &[][..]), "{bought} bought");
    for interaction in Interaction::ALL {
        // The rarest are one of 900 visits.
        let is_rare = Mix::Ordering.published_percent(interaction) < 0.5;
        let visits = samples.iter().filter(|sample| sample.interaction == interaction).count();
        assert!(is_rare || visits > 0, "{interaction}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_of_all_kinds_buy_and_the_orders_add_up_in_mariadb() {
    users_of_all_kinds_buy_and_the_orders_add_up(Kind::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_of_all_kinds_buy_and_the_orders_add_up_in_postgresql() {
    users_of_all_kinds_buy_and_the_orders_add_up(Kind::PostgreSql).await;
}
