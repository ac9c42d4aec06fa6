//! Whether the orders of the shop add up.

use super::{Database, rows, sql};

/// Orders that people confirmed, and what is wrong with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Confirmed orders.
    pub orders: i64,
    /// One sentence for each defect.
    pub defects: Vec<String>,
}

/// Checks all orders that were confirmed since the shop was loaded, and the stock.
pub async fn audit(database: &Database) -> Result<Audit, sqlx::Error> {
    let count = sql!("SELECT COUNT(*) FROM orders WHERE confirmation IS NOT NULL");
    let orders = rows!(database, (i64,), count)?.first().map_or(0, |row| row.0);
    let mut defects = Vec::new();
    let checks = [
        (
            "have no line",
            sql!(
                "SELECT COUNT(*) FROM orders o WHERE confirmation IS NOT NULL \
                  AND NOT EXISTS (SELECT 1 FROM order_line l WHERE l.orders = o.id)"
            ),
        ),
        (
            "have a sum that is not that of their lines",
            sql!(
                "SELECT COUNT(*) FROM (SELECT o.id FROM orders o JOIN order_line l ON l.orders = o.id \
                  WHERE o.confirmation IS NOT NULL GROUP BY o.id, o.sub_total_cents \
                  HAVING SUM(l.price_cents * l.quantity) <> o.sub_total_cents) AS wrong"
            ),
        ),
        (
            "have a total that is not sum and tax",
            sql!(
                "SELECT COUNT(*) FROM orders WHERE confirmation IS NOT NULL AND total_cents <> sub_total_cents + tax_cents"
            ),
        ),
        (
            "are not paid, or not in full",
            sql!(
                "SELECT COUNT(*) FROM orders o WHERE confirmation IS NOT NULL AND NOT EXISTS \
                  (SELECT 1 FROM payment p WHERE p.orders = o.id AND p.amount_cents = o.total_cents)"
            ),
        ),
        (
            "left their books in the cart",
            sql!("SELECT COUNT(*) FROM orders o JOIN cart_line l ON l.cart = o.confirmation"),
        ),
    ];
    for (what, check) in checks {
        let wrong = rows!(database, (i64,), check)?.first().map_or(0, |row| row.0);
        if wrong > 0 {
            defects.push(format!("{wrong} orders {what}"));
        }
    }
    let negative = rows!(database, (i64,), sql!("SELECT COUNT(*) FROM item WHERE stock < 0"))?;
    if negative.first().is_some_and(|row| row.0 > 0) {
        defects.push(format!("{} books have a stock below 0", negative[0].0));
    }
    Ok(Audit { orders, defects })
}
