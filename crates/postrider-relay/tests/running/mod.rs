//! A relay that runs beside its test.

use std::time::Duration;

use postrider_core::Result;
use postrider_relay::{RelayBuilder, RelayHandle, Summary};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub struct Running {
    pub handle: RelayHandle,
    pub stop: CancellationToken,
    pub task: JoinHandle<Result<Summary>>,
}

impl Running {
    pub fn start(builder: RelayBuilder) -> Self {
        let relay = builder.build().unwrap();
        let (handle, stop) = (relay.handle(), CancellationToken::new());
        Self { handle, stop: stop.clone(), task: tokio::spawn(relay.run(stop)) }
    }

    pub async fn stop(self) -> Summary {
        self.stop.cancel();
        timeout(Duration::from_secs(60), self.task).await.unwrap().unwrap().unwrap()
    }
}
